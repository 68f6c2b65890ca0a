//! The algorithms of a process group, and groups of some of the ranks.

#![expect(clippy::cast_possible_truncation, reason = "ranks and elements of tests are few")]

use std::cell::RefCell;

use cubeyard_collectives::collective::{Operation, ReduceOp, algorithms};
use cubeyard_collectives::distributed::{
    CclConfig, DistError, Distributed, Group, GroupConfig, RankMap, Ranks, Worker,
};
use cubeyard_device::topology::Topology;
use cubeyard_memory::address::{CubeId, SipId};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, ContextConfig, Faults, Tensor};
use cubeyard_tl::launch::Launcher;

use crate::distributed::context;

const SUM: Operation = Operation::AllReduce(ReduceOp::Sum);

fn sip(number: usize) -> SipId {
    SipId::new(number as u32).unwrap()
}

/// Makes a tensor of `elements` elements on one PE of each given SIP.
fn tensors(context: &Context, sips: &[usize], elements: u64) -> Vec<Tensor> {
    let on = |&number: &usize| {
        let host = context.full(&[elements], DType::F32, number as f64 + 1.0).unwrap();
        host.to(&Placement::one(sip(number))).unwrap()
    };
    sips.iter().map(on).collect()
}

fn pairs(tensors: &[Tensor]) -> Vec<(&Tensor, &Tensor)> {
    tensors.iter().map(|tensor| (tensor, tensor)).collect()
}

#[test]
fn the_algorithm_is_the_fastest_or_the_one_of_the_file() {
    let context = context(4);
    let dist = Distributed::new(&context);
    for size in [64, 4096, 1 << 18] {
        dist.init_process_group("ahbm").unwrap();
        for operation in [SUM, Operation::Broadcast(0), Operation::Reduce(ReduceOp::Max, 0)] {
            let tensors = tensors(&context, &[0, 1, 2, 3], size / 4);
            let report = dist.run(operation, &pairs(&tensors)).unwrap();
            let chosen = context.machine(|machine| {
                let ccl = CclConfig::embedded();
                ccl.resolve(machine.topology(), operation, DType::F32, size).unwrap()
            });
            assert_eq!(report.algorithm, chosen.algorithm.name(), "{operation} of {size} bytes");
        }
        dist.destroy_process_group().unwrap();
    }
    let forced = CclConfig::read("mine.yaml", "defaults: {algorithm: tree}\n").unwrap();
    dist.init_with("ahbm", &forced).unwrap();
    assert_eq!(dist.algorithms(&dist.world().unwrap()).unwrap(), ["tree"]);
    let tensors = tensors(&context, &[0, 1, 2, 3], 16);
    assert_eq!(dist.run(SUM, &pairs(&tensors)).unwrap().algorithm, "tree");
    let error = dist.run(Operation::AllToAll, &pairs(&tensors)).unwrap_err().to_string();
    assert!(error.contains("tree: all_to_all is not supported"), "{error}");
}

#[test]
fn only_algorithms_that_may_be_chosen_are_wired() {
    let context = context(4);
    let dist = Distributed::new(&context);
    let wired = |text: &str| {
        dist.init_with("ahbm", &CclConfig::read("mine.yaml", text).unwrap())?;
        let wired = dist.algorithms(&dist.world()?)?;
        dist.destroy_process_group().map(|()| wired)
    };
    let all = wired("").unwrap();
    assert!(all.contains(&"direct") && all.len() > 1, "{all:?}");
    let off =
        "algorithms: {ring: {enabled: false}, tree: {from_world: 5}, grid: {world_size: 2}}\n";
    let some = wired(off).unwrap();
    assert!(["ring", "tree", "grid"].iter().all(|name| !some.contains(name)), "{some:?}");
    let names: Vec<_> =
        algorithms().iter().map(|own| format!("{}: {{to_world: 3}}", own.name())).collect();
    let error = wired(&format!("algorithms: {{{}}}\n", names.join(", "))).unwrap_err();
    assert!(error.to_string().contains("no algorithm for 4 ranks"), "{error}");
    assert!(context.is_pristine());
}

#[test]
fn groups_that_cannot_be_are_refused_with_the_reason() {
    let context = context(4);
    let dist = Distributed::new(&context);
    let error = |ranks: &[usize]| dist.new_group(ranks).unwrap_err().to_string();
    assert!(error(&[0]).starts_with("Default process group has not been initialized"));
    dist.init_process_group("ahbm").unwrap();
    assert_eq!(error(&[]), "a group without ranks: expected at least one");
    assert_eq!(error(&[0, 4]), "rank 4: expected a rank below 4");
    assert_eq!(error(&[2, 0, 2]), "rank 2 is named twice");
    let group = dist.new_group(&[3, 1]).unwrap();
    assert_eq!((group.size(), group.rank_of(1), group.rank_of(2)), (2, Some(1), None));
    dist.destroy_group(&group).unwrap();
    let gone = "the group of ranks 3, 1 has been destroyed";
    assert_eq!(dist.destroy_group(&group).unwrap_err().to_string(), gone);
    assert_eq!(dist.run_in(&group, SUM, &[]).unwrap_err().to_string(), gone);
    dist.barrier().unwrap();
    dist.destroy_group(&dist.world().unwrap()).unwrap();
    assert!(context.is_pristine());
}

#[test]
fn a_group_is_made_whole_or_not_at_all() {
    let context = context(3);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    let counter = Faults::new(&context, None);
    let group = dist.new_group(&[2, 0]).unwrap();
    let steps = counter.steps();
    dist.destroy_group(&group).unwrap();
    assert!(steps > 5, "{steps}");
    for step in (0..steps).step_by(7) {
        let faults = Faults::new(&context, Some(step));
        assert!(dist.new_group(&[2, 0]).is_err(), "step {step}");
        drop(faults);
    }
    let group = dist.new_group(&[2, 0]).unwrap();
    let tensors = tensors(&context, &[2, 0], 10);
    dist.run_in(&group, SUM, &pairs(&tensors)).unwrap();
    assert_eq!(tensors[0].read::<f32>().unwrap(), [4.0; 10]);
    drop(tensors);
    dist.destroy_process_group().unwrap();
    assert!(context.is_pristine());
}

/// Performs the operations of a worker's group and checks their results.
async fn every_operation(worker: &Worker) -> Result<(), DistError> {
    let (rank, n, context) = (worker.rank(), worker.world_size(), worker.context());
    let place = Placement::one(sip(worker.global_rank()));
    let tensor = |values: &[f32]| context.from_slice(&[values.len() as u64], values)?.to(&place);
    let column = |base: f32| (0..n).map(|at| base + at as f32).collect::<Vec<_>>();
    let mine = tensor(&column(100.0 * rank as f32))?;
    let all = tensor(&vec![0.0; n * n])?;
    worker.all_gather(&all, &mine).await?;
    let gathered: Vec<f32> = (0..n).flat_map(|rank| column(100.0 * rank as f32)).collect();
    assert_eq!(all.read::<f32>()?, gathered);
    let turned = tensor(&vec![0.0; n])?;
    worker.all_to_all(&turned, &mine).await?;
    let of_each: Vec<_> = (0..n).map(|other| 100.0 * other as f32 + rank as f32).collect();
    assert_eq!(turned.read::<f32>()?, of_each);
    worker.broadcast(&turned, n - 1).await?;
    let of_last: Vec<_> = (0..n).map(|other| 100.0 * other as f32 + (n - 1) as f32).collect();
    assert_eq!(turned.read::<f32>()?, of_last);
    worker.barrier().await?;
    let next = tensor(&[rank as f32])?;
    let last = tensor(&[-1.0])?;
    // The ranks send around a ring, one after the other.
    let (to, from) = ((rank + 1) % n, (rank + n - 1) % n);
    match (n, rank) {
        (1, _) => {}
        (_, 0) => {
            worker.send(&next, to).await?;
            worker.recv(&last, from).await?;
        }
        _ => {
            worker.recv(&last, from).await?;
            worker.send(&next, to).await?;
        }
    }
    assert_eq!(last.read::<f32>()?, [if n == 1 { -1.0 } else { from as f32 }]);
    worker.all_reduce(&mine, ReduceOp::Sum).await?;
    let sum = |at: usize| 50.0 * (n * (n - 1)) as f32 + (n * at) as f32;
    assert_eq!(mine.read::<f32>()?, (0..n).map(sum).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn members_of_groups_are_ranks_in_their_order_and_do_every_operation() {
    let context = context(6);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    let groups = [vec![4, 1, 2], vec![5, 0], vec![3], vec![0, 1, 2, 3, 4, 5], vec![2, 5, 3, 0]];
    dist.spawn(|worker| {
        let groups = &groups;
        async move {
            for ranks in groups {
                // Every rank makes the group; only members use it.
                let group = worker.new_group(ranks)?;
                let Some(place) = ranks.iter().position(|&rank| rank == worker.rank()) else {
                    let error = worker.in_group(&group).unwrap_err().to_string();
                    let is_not = format!("rank {} is not in the group of ranks", worker.rank());
                    assert!(error.starts_with(&is_not), "{error}");
                    continue;
                };
                let member = worker.in_group(&group)?;
                assert_eq!((member.rank(), member.world_size()), (place, ranks.len()));
                assert_eq!(member.global_rank(), worker.rank());
                every_operation(&member).await?;
            }
            every_operation(&worker).await
        }
    })
    .unwrap();
    assert_eq!(dist.findings(), []);
    dist.destroy_process_group().unwrap();
    assert!(context.is_pristine());
}

#[test]
fn several_groups_are_at_work_at_once() {
    let context = context(4);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    let took = RefCell::new(Vec::new());
    let halves = [dist.new_group(&[0, 1]).unwrap(), dist.new_group(&[2, 3]).unwrap()];
    let both = dist.new_group(&[3, 0]).unwrap();
    dist.spawn(|worker| {
        let (took, halves, both, now) = (&took, &halves, &both, || context.now());
        async move {
            let half = worker.in_group(&halves[worker.rank() / 2])?;
            let x = worker.context().full(&[4000], DType::F32, worker.rank() as f64)?;
            let (x, y) = (x.to(&worker.placement())?, x.to(&worker.placement())?);
            let started = now();
            // The ranks of one group call another in between, in different orders.
            let across = (worker.rank() == 3).then(|| worker.in_group(both)).transpose()?;
            let first = across.map(|across| across.all_reduce(&y, ReduceOp::Sum));
            half.all_reduce(&x, ReduceOp::Sum).await?;
            if worker.rank() == 0 {
                worker.in_group(both)?.all_reduce(&y, ReduceOp::Sum).await?;
            }
            if let Some(first) = first {
                first.await?;
            }
            took.borrow_mut().push(now() - started);
            let expected = [1.0, 1.0, 5.0, 5.0][worker.rank()];
            assert_eq!(x.read::<f32>()?, vec![expected; 4000]);
            let expected = [3.0, 1.0, 2.0, 3.0][worker.rank()];
            assert_eq!(y.read::<f32>()?, vec![expected; 4000]);
            Ok(())
        }
    })
    .unwrap();
    assert_eq!(took.into_inner().len(), 4);
}

/// The cost model looked up the PEs of the root before the root was checked to exist.
#[test]
fn a_root_that_is_not_there_is_refused() {
    let context = context(3);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    for operation in [Operation::Broadcast(3), Operation::Reduce(ReduceOp::Sum, 3)] {
        let error = dist.spawn(|worker| async move {
            let x = worker.context().zeros(&[600], DType::F32)?.to(&worker.placement())?;
            match operation {
                Operation::Broadcast(root) => worker.broadcast(&x, root).await,
                _ => worker.reduce(&x, 3, ReduceOp::Sum).await,
            }
        });
        assert_eq!(error.unwrap_err().to_string(), "rank 3: expected a rank below 3");
    }
}

#[test]
fn ranks_that_do_not_meet_in_a_group_are_named_with_it() {
    let context = context(3);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    let error = dist.spawn(|worker| async move {
        let group = worker.new_group(&[2, 0])?;
        match worker.rank() {
            2 => worker.in_group(&group)?.barrier().await,
            _ => Ok(()),
        }
    });
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("rank 2 waits in barrier of ranks 2, 0 at process_groups.rs:"),
        "{error}"
    );
    assert!(error.contains("rank 0 has returned"), "{error}");
    let error = dist.spawn(|worker| async move {
        worker.new_group(if worker.rank() == 2 { &[0, 2] } else { &[2, 0] }).map(drop)
    });
    let expected = "rank 2 makes a group of ranks 0, 2: expected ranks 2, 0, as in the same call of another rank";
    assert_eq!(error.unwrap_err().to_string(), expected);
}

#[test]
fn some_ranks_lie_as_their_sips_and_cubes_do() {
    let text = "sips: {count: 6, topology: torus_2d, w: 3, h: 2}\n";
    let topology = Topology::read("torus.yaml", text).unwrap();
    let world = |sips: &[usize], cubes: &[u32], ranks| {
        let sips = sips.iter().map(|&number| sip(number)).collect();
        let cubes = cubes.iter().map(|&number| CubeId::new(number).unwrap()).collect();
        let config = GroupConfig { sips, cubes, ranks, ..GroupConfig::default() };
        let map = RankMap::new(&topology, &config).map_err(|error| error.to_string())?;
        let world = map.world();
        Ok((world.grid.clone(), world.wraps.clone()))
    };
    let of_sips = |sips: &[usize]| world(sips, &[], Ranks::Sip);
    assert_eq!(of_sips(&[]), Ok((vec![3, 2], vec![true, true])));
    assert_eq!(of_sips(&[1, 2, 4, 5]), Ok((vec![2, 2], vec![false, true])));
    assert_eq!(of_sips(&[3, 4, 5]), Ok((vec![3, 1], vec![true, false])));
    assert_eq!(of_sips(&[0, 4, 2]), Ok((vec![3], vec![true])));
    assert_eq!(of_sips(&[5, 4, 3]), Ok((vec![3], vec![true])));
    assert_eq!(of_sips(&[1, 1]), Err("SIP sip1 is named twice".to_owned()));
    assert_eq!(of_sips(&[1, 7]), Err("sip7: expected one of 6 SIPs".to_owned()));
    let of_cubes = |cubes: &[u32]| world(&[2], cubes, Ranks::Cube);
    assert_eq!(of_cubes(&[5, 6, 9, 10]), Ok((vec![2, 2, 1, 1], vec![false; 4])));
    assert_eq!(of_cubes(&[0, 5, 10]), Ok((vec![3, 1, 1], vec![true, false, false])));
    let unsorted = "expected cubes in ascending order, found cube6, cube5";
    assert_eq!(of_cubes(&[6, 5]), Err(unsorted.to_owned()));
}

/// A sum over some cubes of a SIP, by each algorithm that supports it.
#[test]
fn some_cubes_of_a_sip_are_a_group() {
    let text = "sips: {count: 2}\ncubes: {w: 3, h: 2}\npe: {routers: [r0c0, r0c1]}\nhbm: {bytes_per_cube: 64 MiB}\n";
    let topology = Topology::read("small.yaml", text).unwrap();
    let context = Context::new(ContextConfig { topology, data: true, ..ContextConfig::default() });
    let launcher = Launcher::new(&context);
    let rows = |count: u32| Placement {
        cube: Split::RowWise,
        pe: Split::RowWise,
        sips: vec![sip(1)],
        cubes: Some(count),
        ..Placement::default()
    };
    for (number, algorithm) in algorithms().into_iter().enumerate() {
        let cubes = (0..4).map(|cube| CubeId::new(cube).unwrap()).collect();
        let (ranks, sips) = (Ranks::Cube, vec![sip(1)]);
        let config = GroupConfig { ranks, sips, cubes, ..GroupConfig::default() };
        let group = Group::new(&context, &config, algorithm, number as u16).unwrap();
        let values: Vec<i32> = (0..8 * 33).collect();
        let x = context.from_slice(&[8, 33], &values).unwrap().to(&rows(4)).unwrap();
        group.run(&launcher, SUM, &[(&x, &x)]).unwrap();
        let sum = |index: i32| (0..4).map(|cube| cube * 66 + index % 66).sum();
        let expected: Vec<i32> = (0..8 * 33).map(sum).collect();
        assert_eq!(x.read::<i32>().unwrap(), expected, "{}", group.algorithm());
        let wide = context.zeros(&[8, 33], DType::I32).unwrap().to(&rows(2)).unwrap();
        let error = group.run(&launcher, SUM, &[(&wide, &wide)]).unwrap_err().to_string();
        assert!(
            error.contains("is on cube0, cube1, expected cube0, cube1, cube2, cube3"),
            "{error}"
        );
    }
}

/// An unmatched call kept its tensors until the next run.
#[test]
fn a_run_that_fails_keeps_no_tensors() {
    let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    let before = context.memory_stats().tensors;
    let apart = dist.spawn(|worker| async move {
        let mine = worker.context().zeros(&[16], DType::F32)?.to(&worker.placement())?;
        match worker.rank() {
            0 => worker.all_reduce(&mine, ReduceOp::Sum).await,
            _ => worker.barrier().await,
        }
    });
    assert!(matches!(apart, Err(DistError::Apart(_))));
    assert_eq!(context.memory_stats().tensors, before);
}
