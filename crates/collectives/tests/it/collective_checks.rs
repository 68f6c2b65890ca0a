//! Calls of ranks that do not match: each is an error before any data moves.
//!
//! Every tested call once passed, overwrote other tensors, or left the machine in a deadlock.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "ranks and elements of tests are few"
)]

use cubeyard_collectives::collective::{Operation, ReduceOp, Wire, algorithms};
use cubeyard_collectives::distributed::{
    DistError, Distributed, Group, GroupConfig, KernelChannels, Ranks,
};
use cubeyard_device::request::PeRef;
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Argument, Context, ContextConfig, Launch, RingConfig, Tensor};
use cubeyard_tl::Port;
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::launch::Launcher;

use crate::distributed::context;

const SUM: Operation = Operation::AllReduce(ReduceOp::Sum);

fn sip(number: usize) -> SipId {
    SipId::new(number as u32).unwrap()
}

fn one(rank: usize) -> Placement {
    Placement::one(sip(rank))
}

/// Returns a placement by rows or by columns over all PEs of a rank.
fn spread(rank: usize, split: Split) -> Placement {
    Placement { cube: split, pe: split, sips: vec![sip(rank)], ..Placement::default() }
}

fn floats(context: &Context, values: &[f32], placement: &Placement) -> Tensor {
    context.from_slice(&[values.len() as u64], values).unwrap().to(placement).unwrap()
}

fn text<T: std::fmt::Debug>(result: Result<T, DistError>) -> String {
    result.unwrap_err().to_string()
}

/// Runs an operation of two ranks, each with `input` and `output` elements on one PE.
fn sized(operation: Operation, input: usize, output: usize) -> Result<(), DistError> {
    let context = context(2);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm")?;
    let tensors = [0, 1].map(|rank| {
        let tensor = |count, value| floats(&context, &vec![value; count], &one(rank));
        [tensor(input, 1.0), tensor(output, 2.0), tensor(4, 7.0)]
    });
    let pairs: Vec<_> = tensors.iter().map(|[input, output, _]| (input, output)).collect();
    let result = dist.run(operation, &pairs).map(drop);
    for [_, _, neighbour] in &tensors {
        assert_eq!(neighbour.read::<f32>()?, [7.0; 4], "{operation} of {input} into {output}");
    }
    result
}

/// Data beyond the end of a short output overwrote the next tensor, and the call returned `Ok`.
#[test]
fn an_output_that_is_too_short_is_refused_and_its_neighbour_is_whole() {
    assert_eq!(
        text(sized(Operation::AllGather, 1024, 1024)),
        "all_gather: the output of rank 0 has 1024 elements on sip0.cube0.pe0, expected 2048 for \
         an input of 1024 among 2 ranks"
    );
    sized(Operation::AllGather, 1024, 2048).unwrap();
}

/// A long output was filled in part, and its old rest looked like a result.
#[test]
fn an_output_that_is_too_long_is_refused() {
    let scatter = Operation::ReduceScatter(ReduceOp::Sum);
    for (operation, output, expected) in [
        (scatter, 96, 48),
        (scatter, 49, 48),
        (Operation::Scatter(1), 47, 48),
        (Operation::AllToAll, 95, 96),
        (Operation::Gather(0), 193, 192),
        (SUM, 97, 96),
        (Operation::Broadcast(0), 192, 96),
        (Operation::Reduce(ReduceOp::Max, 0), 48, 96),
    ] {
        let error = text(sized(operation, 96, output));
        let name = operation.name();
        let told = format!(
            "{name}: the output of rank 0 has {output} elements on sip0.cube0.pe0, expected \
             {expected} for an input of 96 among 2 ranks"
        );
        assert_eq!(error, told);
        sized(operation, 96, expected).unwrap();
    }
}

/// Seven elements divide among two ranks into parts of three and four.
#[test]
fn parts_that_do_not_divide_go_into_outputs_of_their_own_lengths() {
    let context = context(2);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    let inputs = [0, 1].map(|rank| {
        let values: Vec<f32> = (0..7).map(|at| (at + 10 * rank) as f32).collect();
        floats(&context, &values, &one(rank))
    });
    let run = |operation, lengths: [usize; 2]| {
        let output = |rank: usize| floats(&context, &vec![0.0; lengths[rank]], &one(rank));
        let outputs = [0, 1].map(output);
        let pairs: Vec<_> = inputs.iter().zip(&outputs).collect();
        dist.run(operation, &pairs).map(|_| outputs.map(|output| output.read::<f32>().unwrap()))
    };
    let sums = run(Operation::ReduceScatter(ReduceOp::Sum), [3, 4]).unwrap();
    assert_eq!(sums, [vec![10.0, 12.0, 14.0], vec![16.0, 18.0, 20.0, 22.0]]);
    let dealt = run(Operation::Scatter(1), [3, 4]).unwrap();
    assert_eq!(dealt, [vec![10.0, 11.0, 12.0], vec![13.0, 14.0, 15.0, 16.0]]);
    let turned = run(Operation::AllToAll, [6, 8]).unwrap();
    assert_eq!(turned[0], [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]);
    assert_eq!(turned[1], [3.0, 4.0, 5.0, 6.0, 13.0, 14.0, 15.0, 16.0]);
    let error = text(run(Operation::Scatter(1), [4, 3]));
    assert!(error.contains("the output of rank 0 has 4 elements"), "{error}");
}

/// 17 elements over 128 PEs occupy two PEs of the first cube and one PE of each other cube. The call once failed
/// with "pe1 holds no part of it".
#[test]
fn all_reduce_of_any_number_of_elements_on_the_default_machine() {
    let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    let counts = [1_u64, 2, 7, 16, 17, 23, 31, 32, 33, 40, 41, 100, 127, 128, 129];
    dist.spawn(|worker| async move {
        for count in counts {
            let mine: Vec<i32> =
                (0..count).map(|at| at as i32 + 1000 * (worker.rank() as i32 + 1)).collect();
            let tensor = worker.context().from_slice(&[count], &mine)?.to(&worker.placement())?;
            worker.all_reduce(&tensor, ReduceOp::Sum).await?;
            let expected: Vec<i32> = (0..count).map(|at| 2 * at as i32 + 3000).collect();
            assert_eq!(tensor.read::<i32>()?, expected, "{count}");
            if worker.rank() == 0 {
                worker.send(&tensor, 1).await?;
            } else {
                worker.recv(&tensor, 0).await?;
            }
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(dist.findings(), []);
}

/// Ranks waited for PEs that had nothing to send.
#[test]
fn ranks_that_hold_a_tensor_in_different_ways_are_told() {
    let context = context(2);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    let place =
        |placement: Placement| context.zeros(&[8, 8], DType::F32).unwrap().to(&placement).unwrap();
    let rows = place(spread(0, Split::RowWise));
    let of_one = place(one(1));
    assert_eq!(
        text(dist.run(SUM, &[(&rows, &rows), (&of_one, &of_one)])),
        "all_reduce: rank 1 holds rows 0..8 of columns 0..8 on sip1.cube0.pe0, expected rows 0..2 \
         of columns 0..8, which rank 0 holds on sip0.cube0.pe0"
    );
    // Every PE holds equally many elements, but of different columns, so their sum would be meaningless.
    let columns = place(spread(1, Split::ColumnWise));
    assert_eq!(
        text(dist.run(SUM, &[(&rows, &rows), (&columns, &columns)])),
        "all_reduce: rank 1 holds rows 0..8 of columns 0..2 on sip1.cube0.pe0, expected rows 0..2 \
         of columns 0..8, which rank 0 holds on sip0.cube0.pe0"
    );
    let error = text(dist.begin_send((0, &rows), (1, &columns)));
    assert!(error.starts_with("recv: rank 1 holds rows 0..8 of columns 0..2"), "{error}");
    let error = text(dist.run(SUM, &[(&of_one, &of_one), (&rows, &rows)]));
    assert_eq!(error, "all_reduce: the tensor of rank 0 is on sip1, expected sip0");
    // The machine still works.
    let others = place(spread(1, Split::RowWise));
    dist.run(SUM, &[(&rows, &rows), (&others, &others)]).unwrap();
}

/// The input by rows and the output by columns.
#[test]
fn an_output_that_lies_otherwise_than_its_input_is_told() {
    let context = context(2);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    let place =
        |rank, split| context.zeros(&[8, 8], DType::F32).unwrap().to(&spread(rank, split)).unwrap();
    let [inputs, outputs] =
        [Split::RowWise, Split::ColumnWise].map(|split| [0, 1].map(|rank| place(rank, split)));
    let pairs: Vec<_> = inputs.iter().zip(&outputs).collect();
    assert_eq!(
        text(dist.run(SUM, &pairs)),
        "all_reduce: the output of rank 0 on sip0.cube0.pe0 is rows 0..8 of columns 0..2, expected \
         rows 0..2 of columns 0..8, its input there"
    );
}

#[test]
fn a_cube_that_holds_less_than_another_is_told() {
    let text_of = "sips: {count: 1}\ncubes: {w: 2, h: 2}\npe: {routers: [r0c0, r0c1]}\nhbm: {bytes_per_cube: 64 MiB}\n";
    let topology = cubeyard_device::topology::Topology::read("small.yaml", text_of).unwrap();
    let context = Context::new(ContextConfig { topology, data: true, ..ContextConfig::default() });
    let launcher = Launcher::new(&context);
    for (number, algorithm) in algorithms().into_iter().enumerate() {
        let config = GroupConfig { ranks: Ranks::Cube, ..GroupConfig::default() };
        let group = Group::new(&context, &config, algorithm, number as u16 + 1).unwrap();
        let rows = |count: u64| {
            let values: Vec<i32> = (0..count as i32 * 3).collect();
            let host = context.from_slice(&[count, 3], &values).unwrap();
            host.to(&spread(0, Split::RowWise)).unwrap()
        };
        // Five rows on four cubes: only the first has one for its second PE.
        let uneven = rows(5);
        assert_eq!(
            text(group.run(&launcher, SUM, &[(&uneven, &uneven)])),
            "all_reduce: rank 1 holds nothing on sip0.cube1.pe1, expected 1 row of 3 columns, \
             which rank 0 holds on sip0.cube0.pe1"
        );
        // Four rows: no cube has one for its second PE.
        let even = rows(4);
        group.run(&launcher, SUM, &[(&even, &even)]).unwrap();
        let sums = [18, 22, 26].repeat(4);
        assert_eq!(even.read::<i32>().unwrap(), sums, "{}", group.algorithm());
    }
    assert_eq!(launcher.findings(), []);
}

/// The error was once about calls that do not match.
#[test]
fn a_peer_that_is_not_there_is_refused_where_it_is_named() {
    let context = context(2);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    let call = |sends: bool, peer: usize| {
        text(dist.spawn(|worker| async move {
            let x = worker.context().zeros(&[8], DType::F32)?.to(&worker.placement())?;
            match (worker.rank(), sends) {
                (0, true) => worker.send(&x, peer).await,
                (0, false) => worker.recv(&x, peer).await,
                _ => worker.barrier().await,
            }
        }))
    };
    assert_eq!(call(true, 2), "send to rank 2: expected a rank below 2");
    assert_eq!(call(false, 9), "recv from rank 9: expected a rank below 2");
    assert_eq!(call(true, 0), "send to rank 0 by rank 0: expected another rank");
    assert_eq!(call(false, 0), "recv from rank 0 by rank 0: expected another rank");
    // The same error without waiting for the call.
    let error = text(dist.spawn(|worker| async move {
        let x = worker.context().zeros(&[8], DType::F32)?.to(&worker.placement())?;
        drop(worker.send(&x, 5));
        worker.barrier().await
    }));
    assert_eq!(error, "send to rank 5: expected a rank below 2");
}

/// A worker could make a call for all ranks, alone, and got `Ok`.
#[test]
fn a_rank_cannot_act_for_all_from_inside_its_worker() {
    let context = context(2);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    let error = text(dist.spawn(|worker| {
        let dist = &dist;
        async move { if worker.rank() == 0 { dist.barrier().map(drop) } else { Ok(()) } }
    }));
    let told = "rank 0 called barrier for all ranks from inside its worker: use the worker's method, \
                which waits for the other ranks";
    assert_eq!(error, told);
    let error = text(dist.spawn(|worker| {
        let dist = &dist;
        async move {
            let x = worker.context().zeros(&[8], DType::F32)?.to(&one(0))?;
            let y = worker.context().zeros(&[8], DType::F32)?.to(&one(1))?;
            if worker.rank() == 1 { dist.run(SUM, &[(&x, &x), (&y, &y)]).map(drop) } else { Ok(()) }
        }
    }));
    assert!(error.starts_with("rank 1 called all_reduce sum for all ranks from inside"), "{error}");
    dist.barrier().unwrap();
}

/// The bits of a float were once received as an integer.
#[test]
fn a_message_of_another_type_is_refused_although_it_is_as_long() {
    for (kind, dtype) in [("waits", DType::I32), ("any", DType::I32), ("waits", DType::F32)] {
        let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
        let launcher = Launcher::new(&context);
        let two =
            Placement { pe: Split::RowWise, cubes: Some(1), pes: Some(2), ..Placement::default() };
        let x = context.full(&[2, 8], DType::F32, 1.5).unwrap().to(&two).unwrap();
        let y = context.zeros(&[2, 8], dtype).unwrap().to(&two).unwrap();
        let pes: Vec<_> = x.shards().unwrap().iter().map(|shard| shard.at).collect();
        let wire = Wire { ends: [(0, Port::E), (1, Port::W)] };
        let wired = KernelChannels::new(&launcher, &pes, &[wire], &RingConfig::default()).unwrap();
        wired.use_on(&launcher);
        let hand = Kernel::new("hand on", move |tl, args| {
            Box::pin(async move {
                let (x, y) = (args.tensor(0).local(), args.tensor(1).local());
                if tl.program_id(0) == 0 {
                    tl.send(Port::E, &tl.load(&x));
                } else if kind == "any" {
                    let (come, _) = tl.recv_any(&[Port::W], &[1, 8], y.ty().dtype);
                    tl.store(&y, &come);
                } else {
                    tl.store(&y, &tl.recv(Port::W, &[1, 8], y.ty().dtype));
                }
            })
        });
        let arguments = vec![Argument::Tensor(&x), Argument::Tensor(&y)];
        let (cubes, numbers) = (vec![pes[0].cube], vec![pes[0].pe, pes[1].pe]);
        let launch = Launch::new(sip(0)).arguments(arguments).cubes(cubes).pes(numbers);
        let result = launcher.run(&hand, &launch);
        if dtype == DType::F32 {
            result.unwrap();
            continue;
        }
        let error = result.unwrap_err().to_string();
        assert!(error.contains("the message from sip0.cube0.pe0 is of f32"), "{error}");
        assert!(error.contains("i32[1, 8]"), "{error}");
    }
}

/// The search for a route from an engine to itself once panicked.
#[test]
fn a_channel_from_a_pe_to_itself_is_refused() {
    let context = context(1);
    let launcher = Launcher::new(&context);
    let (sip, cube) = (sip(0), CubeId::new(0).unwrap());
    let pe = |number| PeRef { sip, cube, pe: PeId::new(number).unwrap() };
    let wire = |a, b| Wire { ends: [(a, Port(0)), (b, Port(1))] };
    let connect = |pes: &[PeRef], wire: Wire, ring: &RingConfig| {
        KernelChannels::new(&launcher, pes, &[wire], ring).map(drop)
    };
    let ring = RingConfig::default();
    let own = "a channel from sip0.cube0.pe0 to itself: expected two PEs";
    assert_eq!(text(connect(&[pe(0)], wire(0, 0), &ring)), own);
    assert_eq!(text(connect(&[pe(0), pe(0)], wire(0, 1), &ring)), own);
    assert_eq!(
        text(connect(&[pe(0), pe(7)], wire(0, 1), &ring)),
        "the machine has no sip0.cube0.pe7"
    );
    let none = RingConfig { slots: 0, ..ring };
    assert_eq!(
        text(connect(&[pe(0), pe(1)], wire(0, 1), &none)),
        "a ring of 0 slots of 4096 bytes: expected at least one slot of at least one byte"
    );
    assert!(context.is_pristine());
    connect(&[pe(0), pe(1)], wire(0, 1), &ring).unwrap();
}

#[test]
fn what_cannot_be_joined_is_told_before_a_kernel_is_made() {
    let context = context(2);
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    let run = |op, dtype| {
        let [x, y] = [0, 1].map(|rank| context.zeros(&[8], dtype).unwrap().to(&one(rank)).unwrap());
        dist.run(Operation::AllReduce(op), &[(&x, &x), (&y, &y)]).map(drop)
    };
    assert_eq!(text(run(ReduceOp::Bxor, DType::F32)), "all_reduce bxor: not defined for f32");
    assert_eq!(text(run(ReduceOp::Avg, DType::I32)), "all_reduce avg: not defined for i32");
    assert_eq!(text(run(ReduceOp::Sum, DType::Bool)), "all_reduce sum: not defined for bool");
    for op in ReduceOp::ALL {
        for dtype in DType::ALL {
            let done = run(op, dtype).map_err(|error| error.to_string());
            let told = format!("all_reduce {}: not defined for {dtype}", op.name());
            assert!(done.is_ok() || done == Err(told), "{op:?} {dtype}: {done:?}");
        }
    }
}

#[test]
fn tensors_that_are_no_ranks_own_are_refused() {
    let (context, other) = (context(2), context(2));
    let dist = Distributed::new(&context);
    dist.init_process_group("ahbm").unwrap();
    let on = |context: &Context, rank| floats(context, &[1.0; 8], &one(rank));
    let (a, b) = (on(&context, 0), on(&context, 1));
    let foreign = on(&other, 1);
    assert_eq!(
        text(dist.run(SUM, &[(&a, &a), (&foreign, &foreign)])),
        "all_reduce: the tensor of rank 1 is of another context"
    );
    let half = b.rows(0..4).unwrap();
    let [c, d] = [0, 1].map(|rank| floats(&context, &[1.0; 4], &one(rank)));
    assert_eq!(
        text(dist.run(SUM, &[(&c, &c), (&half, &half)])),
        "all_reduce: the tensor of rank 1 is a view of a part, expected a tensor of its own"
    );
    assert_eq!(
        text(dist.run(Operation::AllToAll, &[(&c, &c), (&d, &d)])),
        "all_to_all: the tensor of rank 0 is its input and its output, expected two tensors"
    );
    let wide = context.zeros(&[4], DType::I32).unwrap().to(&one(0)).unwrap();
    assert_eq!(
        text(dist.run(SUM, &[(&c, &wide), (&d, &d)])),
        "all_reduce: the output of rank 0 has elements of i32, expected f32, the type of its input"
    );
    dist.run(SUM, &[(&a, &a), (&b, &b)]).unwrap();
    assert_eq!(b.read::<f32>().unwrap(), [2.0; 8]);
}
