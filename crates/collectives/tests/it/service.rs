//! The service computes the same bits as a simulated machine.

use std::rc::Rc;

use cubeyard_collectives::collective::{
    Algorithm, Job, Operation, ReduceOp, Ring, Schedule, Wire, World,
};
use cubeyard_collectives::distributed::CclConfig;
use cubeyard_collectives::service::{Exchange, ExchangeKind, Fabric};
use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::{Context, ContextConfig, random_bits};
use cubeyard_tl::kernel::Kernel;

const ALGORITHMS: [&str; 6] = ["direct", "ring", "tree", "halving-doubling", "lrab", "grid"];
const FLOATS: [DType; 4] = [DType::F16, DType::Bf16, DType::F32, DType::F64];

/// Makes the machine of a topology and a `ccl.yaml`.
fn fabric_of(topology: Topology, ccl: CclConfig) -> Fabric {
    let context = Context::new(ContextConfig { topology, ..Default::default() });
    Fabric::new(&context, ccl).unwrap()
}

/// Returns the topology and the `ccl.yaml` of SIPs of one cube.
pub(crate) fn machine(ranks: usize, algorithm: &str) -> (Topology, CclConfig) {
    let topology = format!("sips: {{count: {ranks}}}\ncubes: {{w: 1, h: 1}}");
    (Topology::read("small", &topology).unwrap(), ccl_of(algorithm))
}

fn ccl_of(algorithm: &str) -> CclConfig {
    CclConfig::read("ccl.yaml", &format!("defaults: {{algorithm: {algorithm}}}")).unwrap()
}

/// Makes a machine of SIPs of one cube.
pub(crate) fn fabric(ranks: usize, algorithm: &str) -> Fabric {
    let (topology, ccl) = machine(ranks, algorithm);
    fabric_of(topology, ccl)
}

/// Draws the bytes of each rank: floats with any rounding and any sign, integers that overflow.
fn draw(ranks: usize, elements: u64, dtype: DType) -> Vec<Vec<u8>> {
    let of_rank = |rank: usize| {
        let mut bytes = Vec::new();
        for element in 0..elements {
            let bits = random_bits(rank as u64, element);
            let value = (bits >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
            match dtype {
                DType::Bool => bytes.push(u8::from(bits & 1 == 1)),
                _ if dtype.is_float() => dtype.encode(value, &mut bytes).unwrap(),
                _ => bytes.extend(&bits.to_le_bytes()[..dtype.width()]),
            }
        }
        bytes
    };
    (0..ranks).map(of_rank).collect()
}

fn exchange(operation: Operation, ranks: &[usize], dtype: DType, count: u64) -> Exchange {
    Exchange { kind: ExchangeKind::Collective(operation), ranks: ranks.into(), dtype, count }
}

/// Computes a reduction twice, the second time without a simulation, and compares it with the simulated outputs.
fn check(fabric: &mut Fabric, exchange: &Exchange, inputs: &[Vec<u8>]) {
    let op = exchange.reduction().unwrap().1;
    let inputs: Vec<_> = inputs.iter().map(Vec::as_slice).collect();
    let (timing, _) = fabric.reduce(exchange, op, &inputs).unwrap();
    let before = fabric.simulations();
    let (again, computed) = fabric.reduce(exchange, op, &inputs).unwrap();
    assert_eq!((fabric.simulations(), again), (before, timing), "{exchange}");
    assert!(fabric.is_known(exchange));
    let (simulated_timing, simulated) = fabric.simulate(exchange, Some(&inputs)).unwrap();
    assert_eq!(simulated_timing, timing, "{exchange}");
    for (place, output) in simulated.iter().enumerate() {
        let own = if computed.len() == 1 { &computed[0] } else { &computed[place] };
        assert!(own == output, "other bits: {exchange} of {}, place {place}", exchange.dtype);
    }
}

/// With `lrab`, each of three or more ranks added in a different order: 1,313 of 4,096 sums of f32 differed.
#[test]
fn the_stated_order_gives_the_bits_of_the_machine_on_all_ranks() {
    for algorithm in ALGORITHMS {
        for ranks in [3, 4, 7] {
            let mut fabric = fabric(ranks, algorithm);
            let all: Vec<_> = (0..ranks).collect();
            let sum = Operation::AllReduce(ReduceOp::Sum);
            for dtype in [DType::F32, DType::Bf16] {
                let exchange = exchange(sum, &all, dtype, 333);
                check(&mut fabric, &exchange, &draw(ranks, 333, dtype));
            }
            let zero = |rank: usize, element: usize| {
                if element.is_multiple_of(2 + rank) { -0.0 } else { 0.0_f32 }
            };
            let zeros =
                |rank| (0..40).flat_map(|element| zero(rank, element).to_le_bytes()).collect();
            let zeros: Vec<Vec<u8>> = (0..ranks).map(zeros).collect();
            for op in [ReduceOp::Max, ReduceOp::Min] {
                let exchange = exchange(Operation::AllReduce(op), &all, DType::F32, 40);
                check(&mut fabric, &exchange, &zeros);
            }
        }
    }
}

#[test]
fn the_stated_order_gives_the_bits_of_other_reductions_and_types() {
    let mut fabric = fabric(4, "auto");
    for dtype in FLOATS {
        for op in [ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Prod] {
            for (operation, parts) in
                [(Operation::Reduce(op, 2), 1), (Operation::ReduceScatter(op), 4)]
            {
                let exchange = exchange(operation, &[0, 1, 2, 3], dtype, 45);
                check(&mut fabric, &exchange, &draw(4, 45 * parts, dtype));
            }
        }
    }
}

#[test]
fn a_group_of_some_ranks_and_parts_of_many_pes_have_a_stated_order() {
    let torus = "sips: {count: 6, topology: torus_2d, w: 3, h: 2}\ncubes: {w: 2, h: 4}";
    for algorithm in ALGORITHMS {
        let torus = Topology::read("torus", torus).unwrap();
        let mut fabric = fabric_of(torus, ccl_of(algorithm));
        for ranks in [vec![0, 1, 2, 3, 4, 5], vec![0, 1, 3, 4], vec![5, 0, 2]] {
            let sum = Operation::AllReduce(ReduceOp::Sum);
            let exchange = exchange(sum, &ranks, DType::F32, 1001);
            check(&mut fabric, &exchange, &draw(ranks.len(), 1001, DType::F32));
        }
    }
}

#[test]
fn every_operator_of_every_type_gives_the_bits_of_the_machine() {
    let mut seen = 0;
    for ranks in [2, 3] {
        let mut fabric = fabric(ranks, "auto");
        let all: Vec<_> = (0..ranks).collect();
        for dtype in DType::ALL {
            for op in ReduceOp::ALL.into_iter().filter(|op| op.suits(dtype)) {
                let exchange = exchange(Operation::AllReduce(op), &all, dtype, 20);
                check(&mut fabric, &exchange, &draw(ranks, 20, dtype));
                seen += 1;
            }
        }
    }
    assert!(seen > 150, "{seen}");
}

#[test]
fn nan_infinities_and_zeros_of_both_signs_are_those_of_the_machine() {
    let mut fabric = fabric(2, "auto");
    let odd =
        [[f32::NAN, 0.0, -0.0, f32::INFINITY, 1e38], [1.0, -0.0, 0.0, f32::NEG_INFINITY, 3e38]];
    let odd = odd.map(|row| row.into_iter().flat_map(f32::to_le_bytes).collect::<Vec<_>>());
    for op in [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod] {
        let exchange = exchange(Operation::AllReduce(op), &[0, 1], DType::F32, 5);
        check(&mut fabric, &exchange, &odd);
    }
}

/// A ring that does not state its order.
#[derive(Debug)]
struct Silent;

impl Algorithm for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn refuses(&self, operation: Operation, world: &World) -> Option<String> {
        Ring.refuses(operation, world)
    }

    fn wires(&self, world: &World) -> Vec<Wire> {
        Ring.wires(world)
    }

    fn kernel(&self, job: &Job) -> Kernel {
        Ring.kernel(job)
    }

    fn schedule(&self, _: Operation, _: &World) -> Option<Schedule> {
        None
    }
}

#[test]
fn an_algorithm_that_states_no_order_is_simulated_at_each_call() {
    let find = |_: &str| Some(Ok(Rc::new(Silent) as Rc<dyn Algorithm>));
    let text = "defaults: {algorithm: mine}\nalgorithms: {mine: {module: silent}}";
    let ccl = CclConfig::read_with("ccl.yaml", text, &find).unwrap();
    let mut fabric = fabric_of(machine(3, "auto").0, ccl);
    let inputs = draw(3, 10, DType::F32);
    let inputs: Vec<_> = inputs.iter().map(Vec::as_slice).collect();
    let sum = exchange(Operation::AllReduce(ReduceOp::Sum), &[0, 1, 2], DType::F32, 10);
    for call in 1..4 {
        let (_, outputs) = fabric.reduce(&sum, ReduceOp::Sum, &inputs).unwrap();
        assert_eq!((fabric.simulations(), outputs.len()), (call, 3));
        assert!(!fabric.is_known(&sum));
    }
    // Sums of integers have one result in any order.
    let whole = exchange(Operation::AllReduce(ReduceOp::Sum), &[0, 1, 2], DType::I32, 10);
    fabric.reduce(&whole, ReduceOp::Sum, &inputs).unwrap();
    assert_eq!((fabric.simulations(), fabric.is_known(&whole)), (4, true));
}
