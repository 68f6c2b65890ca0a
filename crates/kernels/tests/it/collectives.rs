//! Collectives: every operation by every algorithm, against plain loops.

use cubeyard_device::topology::Topology;
use cubeyard_kernels::collective::{Algorithm, Operation, ReduceOp, algorithms};
use cubeyard_kernels::distributed::{DistError, Group, GroupConfig};
use cubeyard_kernels::launch::Launcher;
use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, ContextConfig, RingConfig, Tensor};
use proptest::prelude::*;

/// A machine of so many SIPs, each a cube of two PEs.
fn topology(sips: usize) -> Topology {
    let text = format!(
        "sips: {{count: {sips}}}\ncubes: {{w: 1, h: 1}}\npe: {{routers: [r0c0, r0c1]}}\nhbm: {{bytes_per_cube: 64 MiB}}\n"
    );
    Topology::read("small.yaml", &text).unwrap()
}

fn algorithm(name: &str) -> Box<dyn Algorithm> {
    algorithms().into_iter().find(|algorithm| algorithm.name() == name).unwrap()
}

/// Whole numbers that sums and products of eight stay exact with in every type.
fn value(rank: usize, index: u64, dtype: DType) -> f64 {
    if dtype == DType::Bool {
        return f64::from(u8::from((index + rank as u64) % 3 == 0));
    }
    1.0 + ((index * 7 + rank as u64 * 3) % 2) as f64
}

fn joined(op: ReduceOp, values: &[f64]) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "small whole numbers")]
    let bits = || values.iter().map(|value| *value as i64);
    match op {
        ReduceOp::Sum => values.iter().sum(),
        ReduceOp::Avg => values.iter().sum::<f64>() / values.len() as f64,
        ReduceOp::Prod => values.iter().product(),
        ReduceOp::Min => values.iter().copied().fold(f64::INFINITY, f64::min),
        ReduceOp::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ReduceOp::Band => bits().fold(-1, |a, b| a & b) as f64,
        ReduceOp::Bor => bits().fold(0, |a, b| a | b) as f64,
        ReduceOp::Bxor => bits().fold(0, |a, b| a ^ b) as f64,
    }
}

/// What a rank's output is to be, of a part of each rank's input that one PE holds; none where it keeps what
/// it had.
fn expected(operation: Operation, inputs: &[Vec<f64>], rank: usize) -> Option<Vec<f64>> {
    let ranks = inputs.len();
    let elements = inputs[0].len();
    let all = |op: ReduceOp| -> Vec<f64> {
        let of = |index: usize| inputs.iter().map(|input| input[index]).collect::<Vec<_>>();
        (0..elements).map(|index| joined(op, &of(index))).collect()
    };
    let part = |rank: usize| elements * rank / ranks..elements * (rank + 1) / ranks;
    match operation {
        Operation::AllReduce(op) => Some(all(op)),
        Operation::Reduce(op, root) => (rank == root).then(|| all(op)),
        Operation::Broadcast(root) => Some(inputs[root].clone()),
        Operation::AllGather => Some(inputs.concat()),
        Operation::ReduceScatter(op) => Some(all(op)[part(rank)].to_vec()),
        Operation::AllToAll => {
            Some(inputs.iter().flat_map(|input| input[part(rank)].to_vec()).collect())
        }
        Operation::Gather(root) => (rank == root).then(|| inputs.concat()),
        Operation::Scatter(root) => Some(inputs[root][part(rank)].to_vec()),
    }
}

fn read(tensor: &Tensor) -> Vec<f64> {
    let bytes = tensor.read_bytes().unwrap();
    bytes.chunks_exact(tensor.dtype().width()).map(|bytes| tensor.dtype().decode(bytes)).collect()
}

/// Runs an operation on inputs of so many elements a PE, and compares.
fn check(
    name: &str,
    operation: Operation,
    ranks: usize,
    elements: u64,
    dtype: DType,
) -> Result<(), DistError> {
    let data = true;
    let topology = topology(ranks);
    let context = Context::new(ContextConfig { topology, data, ..ContextConfig::default() });
    let ring = RingConfig { slot_bytes: 64, ..RingConfig::default() };
    let config = GroupConfig { ring, ..GroupConfig::default() };
    let group = Group::new(&context, &config, algorithm(name), 3)?;
    let (grow, shrink) = operation.growth(ranks as u64);
    // Two rows, one in each PE.
    let place = |sip: usize| Placement {
        pe: Split::RowWise,
        sips: vec![SipId::new(u32::try_from(sip).unwrap()).unwrap()],
        ..Placement::default()
    };
    let mut tensors = Vec::new();
    let mut inputs = [Vec::new(), Vec::new()];
    for rank in 0..ranks {
        let row = |pe: u64| (0..elements).map(move |index| value(rank, index + pe * 5, dtype));
        let values: Vec<f64> = row(0).chain(row(1)).collect();
        inputs[0].push(row(0).collect::<Vec<_>>());
        inputs[1].push(row(1).collect::<Vec<_>>());
        let input =
            context.from_slice(&[2, elements], &values)?.to_dtype(dtype)?.to(&place(rank))?;
        let output = context.zeros(&[2, elements * grow / shrink], dtype)?.to(&place(rank))?;
        tensors.push((input, output));
    }
    let pairs: Vec<_> = tensors.iter().map(|(input, output)| (input, output)).collect();
    let launcher = Launcher::new(&context);
    group.run(&launcher, &context, operation, &pairs)?;
    assert_eq!(launcher.findings(), [], "{name} {operation}");
    for (rank, (_, output)) in tensors.iter().enumerate() {
        let found = read(output);
        let width = found.len() / 2;
        for (pe, inputs) in inputs.iter().enumerate() {
            if let Some(expected) = expected(operation, inputs, rank) {
                let found = &found[pe * width..(pe + 1) * width];
                assert_eq!(found, expected, "{name} {operation} of {ranks}, rank {rank} pe {pe}");
            }
        }
    }
    drop((tensors, group));
    assert!(context.is_pristine());
    Ok(())
}

fn operations(ranks: usize, root: usize, op: ReduceOp) -> Vec<Operation> {
    let root = root % ranks;
    vec![
        Operation::AllReduce(op),
        Operation::Reduce(op, root),
        Operation::Broadcast(root),
        Operation::AllGather,
        Operation::ReduceScatter(op),
        Operation::AllToAll,
        Operation::Gather(root),
        Operation::Scatter(root),
    ]
}

fn suits(op: ReduceOp, dtype: DType) -> bool {
    let is_float = matches!(
        dtype,
        DType::F16 | DType::Bf16 | DType::F32 | DType::F64 | DType::Fp8E4m3 | DType::Fp8E5m2
    );
    match op {
        ReduceOp::Band | ReduceOp::Bor | ReduceOp::Bxor => !is_float,
        // Sums of eight ones and twos need four bits.
        ReduceOp::Sum | ReduceOp::Prod => dtype != DType::Bool && dtype != DType::Fp8E5m2,
        ReduceOp::Avg => matches!(dtype, DType::F32 | DType::F64),
        ReduceOp::Min | ReduceOp::Max => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_operation_gives_what_plain_loops_give(
        ranks in 1..9_usize,
        elements in 1..90_u64,
        root in 0..8_usize,
        op in proptest::sample::select(ReduceOp::ALL.to_vec()),
        dtype in proptest::sample::select(DType::ALL.to_vec()),
        which in 0..8_usize,
        choice in any::<proptest::sample::Index>(),
    ) {
        prop_assume!(suits(op, dtype));
        let operation = operations(ranks, root, op)[which];
        // Parts of equal length, where the output's length depends on them.
        let splits = matches!(
            operation,
            Operation::ReduceScatter(_) | Operation::AllToAll | Operation::Scatter(_)
        );
        let elements = if splits { elements * ranks as u64 } else { elements };
        let all = algorithms();
        let name = choice.get(&all).name();
        match check(name, operation, ranks, elements, dtype) {
            Ok(()) | Err(DistError::Refused { .. }) => {}
            Err(error) => panic!("{name} {operation} of {ranks}: {error}"),
        }
    }
}
