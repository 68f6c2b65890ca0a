//! The process group: each decision of ADR-0047, and further features.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "ranks and elements of tests are few"
)]

use std::cell::RefCell;

use cubeyard_collectives::collective::{Operation, ReduceOp};
use cubeyard_collectives::distributed::{CclConfig, DistError, Distributed};
use cubeyard_device::topology::Topology;
use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::{Context, ContextConfig, Faults};
use cubeyard_sim::Time;

/// Makes a machine of `sips` SIPs, each with 2 × 1 cubes of two PEs.
pub(crate) fn context(sips: usize) -> Context {
    let text = format!(
        "sips: {{count: {sips}}}\ncubes: {{w: 2, h: 1}}\npe: {{routers: [r0c0, r0c1]}}\nhbm: {{bytes_per_cube: 64 MiB}}\n"
    );
    let topology = Topology::read("small.yaml", &text).unwrap();
    Context::new(ContextConfig { topology, data: true, ..ContextConfig::default() })
}

fn text(result: Result<(), DistError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn d1_there_is_no_backend_until_it_is_asked_for() {
    let context = context(2);
    let dist = Distributed::new(&context);
    assert!(!dist.is_initialized());
    let not_yet = "Default process group has not been initialized";
    assert!(dist.get_world_size().unwrap_err().to_string().starts_with(not_yet));
    assert!(dist.get_rank().unwrap_err().to_string().starts_with(not_yet));
    assert!(dist.get_backend().unwrap_err().to_string().starts_with(not_yet));
    assert!(dist.barrier().unwrap_err().to_string().starts_with(not_yet));
    let operation = Operation::AllReduce(ReduceOp::Sum);
    assert!(dist.run(operation, &[]).unwrap_err().to_string().starts_with(not_yet));
    assert!(text(dist.spawn(|_| async { Ok(()) })).starts_with(not_yet));
    for name in ["nccl", "gloo", "AHBM", ""] {
        let error = text(dist.init_process_group(name));
        assert_eq!(error, format!("Unsupported backend '{name}': expected 'ahbm'"));
    }
    assert!(!dist.is_initialized());
    dist.init_process_group("ahbm").unwrap();
    assert!(dist.is_initialized());
    assert!(text(dist.init_process_group("ahbm")).contains("twice"));
}

#[test]
fn d2_the_world_is_what_is_said_else_the_sips_of_the_topology() {
    let context = context(4);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    assert_eq!(dist.get_world_size().unwrap(), 4);
    dist.destroy_process_group().unwrap();
    let world = |text: &str| {
        dist.init_with("ahbm", &CclConfig::read("mine.yaml", text).unwrap())?;
        let world = dist.get_world_size()?;
        dist.destroy_process_group().map(|()| world)
    };
    assert_eq!(world("defaults: {world_size: 3}\n").unwrap(), 3);
    // The world size of the forced algorithm takes precedence.
    let own = "algorithms: {ring: {world_size: 2}}\n";
    assert_eq!(world(&format!("defaults: {{world_size: 3, algorithm: ring}}\n{own}")).unwrap(), 2);
    assert_eq!(world(&format!("defaults: {{world_size: 3}}\n{own}")).unwrap(), 3);
    let error = world("defaults: {world_size: 5}\n").unwrap_err().to_string();
    assert_eq!(error, "a world of 5 ranks: expected 1 to 4, the number of SIPs");
    let error = world("defaults: {ranks: cube}\n").unwrap_err().to_string();
    assert_eq!(error, "a process group of cubes: expected SIPs as ranks");
    assert!(!dist.is_initialized());
}

#[test]
fn d3_installation_is_all_or_nothing_whatever_fails() {
    let context = context(3);
    let dist = Distributed::new(&context);
    let counter = Faults::new(&context, None);
    dist.init_process_group("ahbm").unwrap();
    let steps = counter.steps();
    dist.destroy_process_group().unwrap();
    assert!(steps > 10, "{steps}");
    assert!(context.is_pristine());
    for step in 0..steps {
        let faults = Faults::new(&context, Some(step));
        assert!(dist.init_process_group("ahbm").is_err(), "step {step}");
        drop(faults);
        assert!(!dist.is_initialized());
        assert!(context.is_pristine(), "step {step}");
    }
    // And it still works.
    dist.init_process_group("ahbm").unwrap();
    dist.barrier().unwrap();
}

#[test]
fn d3_rings_that_do_not_fit_are_refused_with_the_pe() {
    let context = context(2);
    let dist = Distributed::new(&context);
    let mut ccl = CclConfig::embedded();
    ccl.each(|config| config.ring.slot_bytes = cubeyard_memory::Bytes::gib(1));
    let error = text(dist.init_with("ahbm", &ccl));
    assert!(error.contains("sip"), "{error}");
    assert!(context.is_pristine());
}

#[test]
fn d4_and_d7_ranks_belong_to_workers() {
    let context = context(3);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    assert_eq!(dist.get_rank().unwrap(), 0);
    assert_eq!(dist.get_backend().unwrap(), "ahbm");
    let seen = RefCell::new(Vec::new());
    dist.spawn(|worker| {
        let (dist, seen) = (&dist, &seen);
        async move {
            worker.barrier().await?;
            seen.borrow_mut().push((worker.rank(), dist.get_rank()?, worker.world_size()));
            Ok(())
        }
    })
    .unwrap();
    assert_eq!(seen.into_inner(), [(0, 0, 3), (1, 1, 3), (2, 2, 3)]);
    assert_eq!(dist.get_rank().unwrap(), 0);
}

#[test]
fn d5_all_reduce_in_place_on_all_pes_with_every_op() {
    for ranks in [1, 2, 3, 5] {
        let context = context(ranks);
        let dist = Distributed::new(&context);
        dist.init_process_group("ahbm").unwrap();
        dist.spawn(|worker| async move {
            // Short and long tensors use different algorithms; 4 PEs hold uneven parts.
            for elements in [7_u64, 50_001] {
                let mine: Vec<i32> =
                    (0..elements).map(|index| index as i32 % 5 + worker.rank() as i32).collect();
                let tensor =
                    worker.context().from_slice(&[elements], &mine)?.to(&worker.placement())?;
                worker.all_reduce(&tensor, ReduceOp::Sum).await?;
                let n = worker.world_size() as i32;
                let sum = |index: u64| n * (index as i32 % 5) + n * (n - 1) / 2;
                let expected: Vec<i32> = (0..elements).map(sum).collect();
                assert_eq!(tensor.read::<i32>()?, expected);
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(dist.findings(), []);
    }
}

#[test]
fn d5_what_cannot_be_reduced_is_told() {
    let context = context(2);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    let host = context.zeros(&[8], DType::F32).unwrap();
    let operation = Operation::AllReduce(ReduceOp::Sum);
    let error = dist.run(operation, &[(&host, &host), (&host, &host)]).unwrap_err().to_string();
    assert_eq!(error, "all_reduce: the tensor of rank 0 is not deployed");
    let on = |sip: u32, elements: u64, dtype: DType| {
        let one = Placement::one(SipId::new(sip).unwrap());
        context.zeros(&[elements], dtype).unwrap().to(&one).unwrap()
    };
    let (a, b, c) = (on(0, 8, DType::F32), on(1, 9, DType::F32), on(1, 8, DType::F16));
    let error = |x, y| dist.run(operation, &[(x, x), (y, y)]).unwrap_err().to_string();
    assert_eq!(error(&a, &b), "all_reduce: rank 1 has f32[9], expected f32[8]");
    assert_eq!(error(&a, &c), "all_reduce: rank 1 has f16[8], expected f32[8]");
    let wrong = on(0, 8, DType::F32);
    assert_eq!(error(&a, &wrong), "all_reduce: the tensor of rank 1 is on sip0, expected sip1");
    let error = dist.run(operation, &[(&a, &a)]).unwrap_err().to_string();
    assert_eq!(error, "all_reduce of 1 tensors: expected one for each of 2 ranks");
    let unknown = "sun".parse::<ReduceOp>().unwrap_err().to_string();
    assert!(unknown.ends_with("found `sun`; the nearest is `sum`"), "{unknown}");
}

#[test]
fn d6_a_barrier_takes_simulated_time_and_all_ranks() {
    let context = context(4);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    let before = context.now();
    let report = dist.barrier().unwrap();
    assert!(context.now() > before && report.kernel.ns() > 0.0);
    let error = text(dist.spawn(|worker| async move {
        if worker.rank() == 2 { Ok(()) } else { worker.barrier().await }
    }));
    assert!(error.contains("rank 0 waits in barrier at distributed.rs:"), "{error}");
    assert!(error.contains("rank 2 has returned"), "{error}");
}

#[test]
fn ranks_that_call_different_things_are_told_apart() {
    let context = context(2);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    let error = text(dist.spawn(|worker| async move {
        let tensor = worker.context().zeros(&[16], DType::F32)?.to(&worker.placement())?;
        match worker.rank() {
            0 => worker.all_reduce(&tensor, ReduceOp::Sum).await,
            _ => worker.broadcast(&tensor, 0).await,
        }
    }));
    assert!(error.contains("rank 0 waits in all_reduce sum at distributed.rs:"), "{error}");
    assert!(error.contains("rank 1 waits in broadcast from 0 at distributed.rs:"), "{error}");
}

#[test]
fn beyond_d8_every_other_collective_works_from_workers() {
    let context = context(3);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    dist.spawn(|worker| async move {
        let (rank, context) = (worker.rank() as f32, worker.context());
        let one = Placement::one(SipId::new(worker.rank() as u32).unwrap());
        let tensor = |values: &[f32]| context.from_slice(&[values.len() as u64], values)?.to(&one);
        let x = tensor(&[rank, rank + 10.0, rank + 20.0])?;
        let all = tensor(&[0.0; 9])?;
        worker.all_gather(&all, &x).await?;
        let gathered = [0.0, 10.0, 20.0, 1.0, 11.0, 21.0, 2.0, 12.0, 22.0];
        assert_eq!(all.read::<f32>()?, gathered);
        let one_of_three = tensor(&[0.0])?;
        worker.reduce_scatter(&one_of_three, &x, ReduceOp::Sum).await?;
        assert_eq!(one_of_three.read::<f32>()?, [3.0 + 30.0 * rank]);
        let turned = tensor(&[0.0; 3])?;
        worker.all_to_all(&turned, &x).await?;
        assert_eq!(turned.read::<f32>()?, [10.0 * rank, 10.0 * rank + 1.0, 10.0 * rank + 2.0]);
        worker.scatter(&one_of_three, &x, 1).await?;
        assert_eq!(one_of_three.read::<f32>()?, [1.0 + 10.0 * rank]);
        let root = tensor(&[-1.0; 9])?;
        worker.gather(&root, &x, 2).await?;
        let expected = if worker.rank() == 2 { gathered } else { [-1.0; 9] };
        assert_eq!(root.read::<f32>()?, expected);
        let y = tensor(&[rank; 3])?;
        worker.reduce(&y, 0, ReduceOp::Max).await?;
        assert_eq!(y.read::<f32>()?, [if worker.rank() == 0 { 2.0 } else { rank }; 3]);
        worker.broadcast(&y, 1).await?;
        assert_eq!(y.read::<f32>()?, [1.0; 3]);
        Ok(())
    })
    .unwrap();
    assert_eq!(dist.findings(), []);
}

#[test]
fn point_to_point_around_a_ring_and_calls_that_are_waited_for_later() {
    let context = context(4);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    dist.spawn(|worker| async move {
        let (rank, n, context) = (worker.rank(), worker.world_size(), worker.context());
        let mine = context.full(&[6000], DType::F32, rank as f64)?.to(&worker.placement())?;
        let other = context.zeros(&[6000], DType::F32)?.to(&worker.placement())?;
        let (next, last) = ((rank + 1) % n, (rank + n - 1) % n);
        if rank % 2 == 0 {
            worker.send(&mine, next).await?;
            worker.recv(&other, last).await?;
        } else {
            worker.recv(&other, last).await?;
            worker.send(&mine, next).await?;
        }
        assert_eq!(other.read::<f32>()?, vec![last as f32; 6000]);
        // Two calls under way, awaited in reverse order.
        let first = worker.all_reduce(&mine, ReduceOp::Sum);
        let second = worker.all_reduce(&other, ReduceOp::Max);
        second.await?;
        first.await?;
        assert_eq!(mine.read::<f32>()?, vec![6.0; 6000]);
        assert_eq!(other.read::<f32>()?, vec![3.0; 6000]);
        Ok(())
    })
    .unwrap();
    assert!(context.now() > Time::ZERO);
}
