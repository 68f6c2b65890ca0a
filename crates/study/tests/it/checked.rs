//! The check of a sweep detects an algorithm whose ranks get different bits.

use std::rc::Rc;

use cubeyard_collectives::collective::{
    Algorithm, Direct, Job, Operation, ReduceOp, Schedule, Wire, World, port_to,
};
use cubeyard_collectives::distributed::CclConfig;
use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_study::collectives::{ResultCheck, Sweep, SweepConfig, Which};
use cubeyard_tl::Tl;
use cubeyard_tl::kernel::{Args, Kernel};

/// An all-reduce in which each rank combines in a different order: its own value first, then the next rank's, and so on.
#[derive(Debug)]
struct OwnOrder;

impl Algorithm for OwnOrder {
    fn name(&self) -> &'static str {
        "own-order"
    }

    fn refuses(&self, _: Operation, _: &World) -> Option<String> {
        None
    }

    fn wires(&self, world: &World) -> Vec<Wire> {
        Direct.wires(world)
    }

    fn kernel(&self, job: &Job) -> Kernel {
        let (op, ranks) = (job.operation.op().unwrap(), job.world.ranks);
        Kernel::new("own-order", move |tl, args| {
            Box::pin(async move { all_reduce(&tl, &args, op, ranks) })
        })
    }

    fn schedule(&self, _: Operation, _: &World) -> Option<Schedule> {
        None
    }
}

fn all_reduce(tl: &Tl, args: &Args, op: ReduceOp, ranks: usize) {
    let input = args.tensor(0).local();
    let rank = usize::try_from(args.whole(2)).unwrap();
    let others = || (1..ranks).map(|step| port_to((rank + step) % ranks));
    let own = tl.load(&input);
    others().for_each(|port| tl.send(port, &own));
    let all = others().fold(own.clone(), |sum, port| {
        let come = tl.recv_async(port, &input.ty().shape, input.ty().dtype);
        if op == ReduceOp::Sum { tl.add(&sum, &come) } else { tl.maximum(&sum, &come) }
    });
    tl.store(&args.tensor(1).local(), &all);
}

fn checked(op: ReduceOp, dtype: DType, ranks: u32) -> (ResultCheck, bool) {
    let find = |_: &str| Some(Ok(Rc::new(OwnOrder) as Rc<dyn Algorithm>));
    let text = "algorithms: {mine: {module: own_order}}\n";
    let machine = format!(
        "sips: {{count: {ranks}}}\ncubes: {{w: 1, h: 1}}\npe: {{routers: [r0c0]}}\n\
         hbm: {{bytes_per_cube: 64 MiB}}\n"
    );
    let config = SweepConfig {
        topology: Topology::read("machine.yaml", &machine).unwrap(),
        ccl: CclConfig::read_with("mine.yaml", text, &find).unwrap(),
        which: Which::from("mine"),
        operation: Operation::AllReduce(op),
        dtype,
        sizes: vec![1024],
        check_up_to: u64::MAX,
        every_memory: true,
    };
    let sweep = Sweep::run(&config).unwrap();
    (sweep.rows[0].figures.as_ref().unwrap().check.unwrap(), sweep.is_right())
}

/// The sums of each rank are right up to rounding, and `ccl --data` did not compare their bits.
#[test]
fn ranks_that_combine_in_different_orders_are_noticed() {
    for (op, dtype, ranks) in [
        (ReduceOp::Sum, DType::F32, 3),
        (ReduceOp::Sum, DType::F16, 4),
        (ReduceOp::Max, DType::F32, 2),
    ] {
        let (check, is_right) = checked(op, dtype, ranks);
        assert_eq!((check.wrong, check.memories), (0, 3), "{op:?} {dtype}");
        assert!(check.differing > 0 && !is_right, "{op:?} {dtype}: {check:?}");
    }
    // The order of integers does not matter.
    let (check, is_right) = checked(ReduceOp::Sum, DType::I32, 3);
    assert_eq!((check, is_right), (ResultCheck { memories: 3, ..ResultCheck::default() }, true));
}
