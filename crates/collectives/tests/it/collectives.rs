//! Collectives: every operation by every algorithm, against plain loops.

mod bits;
mod machine;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;

use cubeyard_collectives::collective::bound::{Spread, bound};
use cubeyard_collectives::collective::{Algorithm, Operation, ReduceOp, algorithms};
use cubeyard_collectives::distributed::{Beside, DistError, Group, GroupConfig};
use cubeyard_device::topology::Topology;
use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Layout, Placement, Shard, Split};
use cubeyard_runtime::shape::Shape;
use cubeyard_runtime::{Context, ContextConfig, RingConfig, SlotKind, Tensor};
use cubeyard_tl::launch::Launcher;
use expect_test::expect;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::long_tests;
use machine::{COUNTS, MACHINES, Machine, sips};

fn algorithm(name: &str) -> Box<dyn Algorithm> {
    algorithms().into_iter().find(|algorithm| algorithm.name() == name).unwrap()
}

/// Returns 0, 1 or 2, so that sums and products of eight values are exact in every type.
fn value(rank: usize, index: u64, dtype: DType) -> f64 {
    if dtype == DType::Bool {
        return f64::from(u8::from((index + rank as u64).is_multiple_of(3)));
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

/// Computes a rank's output on one PE from the inputs of the PEs at its position; `None` if the output keeps its
/// old contents.
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

/// Rounds a value, such as an average, to the precision of its type.
#[expect(clippy::cast_possible_truncation, reason = "it is rounded")]
fn rounded(value: f64, dtype: DType) -> f64 {
    if dtype == DType::F32 { f64::from(value as f32) } else { value }
}

fn read(tensor: &Tensor) -> Vec<f64> {
    let bytes = tensor.read_bytes().unwrap().known().unwrap();
    bytes.chunks_exact(tensor.dtype().width()).map(|bytes| tensor.dtype().decode(bytes)).collect()
}

/// Returns a placement by rows over all PEs of a SIP.
fn rows(sip: usize) -> Placement {
    Placement {
        cube: Split::RowWise,
        pe: Split::RowWise,
        sips: vec![SipId::new(u32::try_from(sip).unwrap()).unwrap()],
        ..Placement::default()
    }
}

/// Input of each SIP in a test: `rows` rows of `elements` elements, distributed over its PEs.
#[derive(Clone, Copy, Debug)]
struct Given {
    rows: u64,
    elements: u64,
    dtype: DType,
    ring: RingConfig,
    /// Background traffic during the collective.
    beside: Option<Beside>,
}

impl Given {
    /// Makes an input with a row for each PE.
    fn each(machine: Machine, elements: u64, dtype: DType, slots: u32) -> Self {
        Self { rows: machine.pes() as u64, elements, dtype, ring: ring(slots), beside: None }
    }

    /// Returns the layout of a tensor with `elements` elements per row on a SIP.
    fn layout(self, machine: Machine, sip: usize, elements: u64) -> Layout {
        let shape = Shape::new(&[self.rows, elements]).unwrap();
        rows(sip).resolve(shape, self.dtype, &machine.topology()).unwrap()
    }

    /// Returns the number of PEs of a SIP that hold nothing.
    fn idle(self, machine: Machine) -> usize {
        machine.pes() - self.layout(machine, 0, self.elements).shards().len()
    }
}

/// Returns rings with this number of slots of 64 bytes in the TCM.
fn ring(slots: u32) -> RingConfig {
    RingConfig { slot_bytes: cubeyard_memory::Bytes::new(64), slots, ..RingConfig::default() }
}

/// A group of a machine in data mode.
struct Lab {
    group: Group,
    launcher: Launcher,
    context: Context,
}

impl Lab {
    fn new(name: &str, machine: Machine, given: Given) -> Result<Self, DistError> {
        let (data, topology) = (true, machine.topology());
        let context = Context::new(ContextConfig { topology, data, ..ContextConfig::default() });
        let config =
            GroupConfig { ring: given.ring, ranks: machine.ranks, ..GroupConfig::default() };
        let group = Group::new(&context, &config, algorithm(name), 3)?;
        assert_eq!(group.world().ranks, machine.world());
        Ok(Self { group, launcher: Launcher::new(&context), context })
    }

    /// Runs an operation, with background traffic if given. Without it, checks the lower bound of the links.
    fn run(
        &self,
        operation: Operation,
        tensors: &[(&Tensor, &Tensor)],
        machine: Machine,
        given: Given,
    ) -> Result<(), DistError> {
        if let Some(beside) = given.beside {
            beside.run(&self.group, &self.launcher, operation, tensors)?;
        } else {
            let report = self.group.run(&self.launcher, operation, tensors)?;
            let larger = tensors[0].0.nbytes().max(tensors[0].1.nbytes());
            let least = least(&machine.topology(), &self.group, operation, larger.get());
            assert!(report.kernel.ns() >= least, "{operation}: {least} on {machine:?} {given:?}");
        }
        assert_eq!(self.launcher.findings(), [], "{operation} on {machine:?} {given:?}");
        Ok(())
    }
}

/// Returns the indices of a part in the row-major values of its tensor.
fn range(shard: &Shard, elements: u64) -> Range<usize> {
    let place = |row: u64| usize::try_from(row * elements).unwrap();
    place(shard.rows.start)..place(shard.rows.end)
}

/// Returns the rank, and the position within it, of the PE that holds a part.
fn owner(machine: Machine, sip: usize, shard: &Shard) -> (usize, usize) {
    machine.place(sip, shard.at.cube.index() * 2 + shard.at.pe.index())
}

/// Returns the lower bound of the links on the duration of an operation, in nanoseconds. `bytes` is the size of the
/// larger of a SIP's tensors.
fn least(topology: &Topology, group: &Group, operation: Operation, bytes: u64) -> f64 {
    let (map, world) = (group.rank_map(), group.world());
    let members: Vec<_> = (0..world.ranks).map(|rank| map.engines(topology, rank)).collect();
    let Some(bound) = bound(topology, &members, world, operation, Spread::Any) else { return 0.0 };
    let shared = (world.ranks / group.sips().len()) as u64;
    (bytes / shared) as f64 * operation.bus_factor(world.ranks) / bound.bus * 1e9
}

/// Runs an operation on the given inputs, and compares the output of each PE with [`expected`].
fn check(
    name: &str,
    operation: Operation,
    machine: Machine,
    given: Given,
) -> Result<(), DistError> {
    let Given { rows: count, elements, dtype, .. } = given;
    let lab = Lab::new(name, machine, given)?;
    let (context, ranks) = (lab.context.clone(), machine.world());
    let sips = machine.topology().sips().count();
    let (grow, shrink) = operation.growth(ranks as u64);
    let width = elements * grow / shrink;
    let mut inputs = vec![vec![Vec::new(); ranks]; machine.position_count()];
    let mut tensors = Vec::new();
    for sip in 0..sips {
        let mut values = vec![0.0; usize::try_from(count * elements).unwrap()];
        for shard in given.layout(machine, sip, elements).shards() {
            let (rank, position) = owner(machine, sip, shard);
            let part = &mut values[range(shard, elements)];
            let shift = position as u64 * 5;
            part.iter_mut().zip(shift..).for_each(|(to, at)| *to = value(rank, at, dtype));
            inputs[position][rank] = part.to_vec();
        }
        let input = context.from_slice(&[count, elements], &values)?;
        let input = input.to_dtype(dtype)?.to(&rows(sip))?;
        let output = context.zeros(&[count, width], dtype)?.to(&rows(sip))?;
        tensors.push((input, output));
    }
    let pairs: Vec<_> = tensors.iter().map(|(input, output)| (input, output)).collect();
    lab.run(operation, &pairs, machine, given)?;
    for (sip, (_, output)) in tensors.iter().enumerate() {
        let found = read(output);
        for shard in given.layout(machine, sip, width).shards() {
            let (rank, position) = owner(machine, sip, shard);
            if let Some(expected) = expected(operation, &inputs[position], rank) {
                let expected: Vec<_> = expected.into_iter().map(|x| rounded(x, dtype)).collect();
                assert_eq!(
                    &found[range(shard, width)],
                    expected,
                    "{name} {operation}, rank {rank} {position}: {machine:?} {given:?}"
                );
            }
        }
    }
    drop((tensors, lab));
    assert!(context.is_pristine());
    Ok(())
}

/// Parts are longer than all of the TCM for tiles.
#[test]
fn parts_that_do_not_fit_the_tcm_go_in_rounds() {
    let tight = |machine: Machine| Machine { scratch: "2 KiB", ..machine };
    let machines = [(MACHINES[2], 22), (MACHINES[3], 23), (MACHINES[10], 23)];
    for (machine, supported) in long_tests::members(machines, 3) {
        let (machine, mut done) = (tight(machine), 0);
        let ranks = machine.world();
        for (algorithm, operation) in algorithms().iter().flat_map(|one| {
            operations(ranks, 1, ReduceOp::Sum).into_iter().map(move |op| (one, op))
        }) {
            // Each rank's part has 2408 bytes.
            let parts = if matches!(operation, Operation::AllReduce(_)) { ranks as u64 } else { 1 };
            let elements = divided(operation, ranks, 301 * parts);
            let given = Given::each(machine, elements, DType::F64, 4);
            match check(algorithm.name(), operation, machine, given) {
                Ok(()) => done += 1,
                Err(DistError::Refused { .. }) => {}
                Err(error) => panic!("{} {operation} on {machine:?}: {error}", algorithm.name()),
            }
        }
        assert_eq!(done, supported);
    }
}

/// 64 MiB per PE, without data, take no less time than the links allow, which carry 512 GB/s out of a SIP.
#[test]
fn parts_of_many_mebibytes_go_in_rounds() {
    let text = "sips: {count: 2}\ncubes: {w: 1, h: 1}\npe: {routers: [r0c0]}\nhbm: {bytes_per_cube: 512 MiB}\n";
    let topology = cubeyard_device::topology::Topology::read("large.yaml", text).unwrap();
    let ring = RingConfig { slot_bytes: cubeyard_memory::Bytes::kib(64), ..RingConfig::default() };
    let config = GroupConfig { ring, ..GroupConfig::default() };
    let all_reduce = Operation::AllReduce(ReduceOp::Sum);
    for (name, operation) in [
        ("ring", all_reduce),
        ("ring", Operation::AllGather),
        ("grid", all_reduce),
        ("halving-doubling", Operation::ReduceScatter(ReduceOp::Sum)),
        ("direct", all_reduce),
        ("direct", Operation::AllToAll),
    ] {
        let (topology, data) = (topology.clone(), false);
        let context = Context::new(ContextConfig { topology, data, ..ContextConfig::default() });
        let group = Group::new(&context, &config, algorithm(name), 1).unwrap();
        let (grow, shrink) = operation.growth(2);
        let elements: u64 = 64 << 18;
        let tensor = |sip: u32, elements: u64| {
            let place = Placement::one(SipId::new(sip).unwrap());
            context.empty(&[elements], DType::F32).unwrap().to(&place).unwrap()
        };
        let tensors =
            [0, 1].map(|sip| (tensor(sip, elements), tensor(sip, elements * grow / shrink)));
        let pairs: Vec<_> = tensors.iter().map(|(input, output)| (input, output)).collect();
        let report = group.run(&Launcher::new(&context), operation, &pairs).unwrap();
        let bytes = 4 * elements.max(elements * grow / shrink);
        let least = bytes as f64 * operation.bus_factor(2) / 512.0;
        let took = report.kernel.ns();
        assert!(took > least && took < 20.0 * least, "{name} {operation}: {took} ns, {least} ns");
    }
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

/// Returns a number of elements that divides into parts of equal length, if the output's length depends on the parts.
fn divided(operation: Operation, ranks: usize, elements: u64) -> u64 {
    let divides = matches!(
        operation,
        Operation::ReduceScatter(_) | Operation::AllToAll | Operation::Scatter(_)
    );
    if divides { elements * ranks as u64 } else { elements }
}

/// One case of the property test.
#[derive(Clone, Debug)]
struct Case {
    machine: Machine,
    /// Number of rows of a rank, or of a SIP if ranks are SIPs. With fewer rows than PEs, some PEs hold nothing.
    rows: u64,
    elements: u64,
    root: usize,
    op: ReduceOp,
    dtype: DType,
    which: usize,
    /// Name of the algorithm.
    name: &'static str,
    ring: RingConfig,
    beside: Option<Beside>,
}

/// Draws a machine of the list, or a machine of 1 to 16 SIPs with up to 8 PEs each.
fn machines() -> impl Strategy<Value = Machine> {
    let worlds = (0..COUNTS.len(), proptest::sample::select(vec![(1, 1), (2, 1), (2, 2)]));
    let worlds = worlds.prop_map(|(count, cubes)| Machine { cubes, ..sips(COUNTS[count]) });
    prop_oneof![proptest::sample::select(MACHINES.to_vec()), worlds]
}

fn cases() -> impl Strategy<Value = Case> {
    let ops = proptest::sample::select(ReduceOp::ALL.to_vec());
    let dtypes = proptest::sample::select(DType::ALL.to_vec());
    let names: Vec<_> = algorithms().iter().map(|algorithm| algorithm.name()).collect();
    let names = proptest::sample::select(names);
    let of_machine = (machines(), 1..12_u64, 1..90_u64, 0..16_usize);
    let of_operation = (ops, dtypes, 0..8_usize, names);
    (of_machine, of_operation, rings(), besides()).prop_map(
        |((machine, rows, elements, root), (op, dtype, which, name), ring, beside)| Case {
            machine,
            rows,
            elements,
            root,
            op,
            dtype,
            which,
            name,
            ring,
            beside,
        },
    )
}

/// Draws the settings of rings, with slots in every memory.
fn rings() -> impl Strategy<Value = RingConfig> {
    let kinds = proptest::sample::select(SlotKind::NAMES.map(|(_, kind)| kind).to_vec());
    let bytes = proptest::sample::select(vec![64, 256, 320, 1024]);
    (kinds, bytes, 1..5_u32).prop_map(|(kind, bytes, slots)| {
        let slot_bytes = cubeyard_memory::Bytes::new(bytes);
        RingConfig { kind, slot_bytes, ..ring(slots) }
    })
}

/// Draws background traffic for half of the collectives.
fn besides() -> impl Strategy<Value = Option<Beside>> {
    let some = (1..=32_u64, 0..8_u64).prop_map(|(bursts, channel)| Beside { bursts, channel });
    proptest::option::of(some)
}

impl Case {
    /// Returns the input of each SIP. If several ranks share a tensor, each has equally many rows.
    fn given(&self, operation: Operation) -> Given {
        let ranks = self.machine.world();
        let shared = ranks / self.machine.topology().sips().count();
        let elements = divided(operation, ranks, self.elements);
        let rows = self.rows * shared as u64;
        Given { rows, elements, dtype: self.dtype, ring: self.ring, beside: self.beside }
    }
}

/// Every operation gives the same result as plain loops, in worlds of 1 to 16 ranks.
///
/// Some PEs hold nothing, or a row more than others. Slots are in every memory, and there is background traffic.
#[test]
fn every_operation_gives_what_plain_loops_give() {
    let (idle, largest, done) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(long_tests::cases(500)));
    let result = runner.run(&cases(), |case| {
        let ranks = case.machine.world();
        // The sum of more than eight values is not exact in the narrow types.
        let is_wide = !matches!(case.dtype.width(), 1 | 2);
        prop_assume!(suits(case.op, case.dtype) && (is_wide || ranks <= 8));
        let operation = operations(ranks, case.root, case.op)[case.which];
        let given = case.given(operation);
        let name = case.name;
        match check(name, operation, case.machine, given) {
            Ok(()) => {
                done.set(done.get() + 1);
                idle.set(idle.get() + usize::from(given.idle(case.machine) > 0));
                largest.set(ranks.max(largest.get()));
            }
            Err(DistError::Refused { .. }) => {}
            Err(error) => panic!("{name} {operation} on {case:?}: {error}"),
        }
        Ok(())
    });
    result.unwrap();
    // The drawn algorithm refuses half of the operations. The cases differ from run to run, and their number is large
    // enough to reach these counts by chance.
    let seen = (done.get(), idle.get(), largest.get());
    let least = if long_tests::all() { (60, 16, 12) } else { (1, 0, 1) };
    assert!(seen.0 > least.0 && seen.1 >= least.1 && seen.2 >= least.2, "{seen:?}");
}

/// Every algorithm in every world of 1 to 16 ranks, each with one element on one PE.
#[test]
fn one_element_in_every_world() {
    let mut done = 0;
    let worlds: Vec<_> = long_tests::members(COUNTS.iter().zip(1_usize..), 7).collect();
    for &(count, ranks) in &worlds {
        let machine = sips(count);
        for (algorithm, operation) in algorithms().iter().flat_map(|one| {
            operations(ranks, 3, ReduceOp::Sum).into_iter().map(move |op| (one, op))
        }) {
            let elements = divided(operation, ranks, 1);
            let given = Given { rows: 1, elements, dtype: DType::I32, ring: ring(1), beside: None };
            assert_eq!(given.idle(machine), 1);
            match check(algorithm.name(), operation, machine, given) {
                Ok(()) => done += 1,
                Err(DistError::Refused { .. }) => {}
                Err(error) => panic!("{} {operation} of {ranks}: {error}", algorithm.name()),
            }
        }
    }
    // 23 pairs of algorithm and operation; one of them only in worlds of a power of two.
    let powers = worlds.iter().filter(|(_, ranks)| ranks.is_power_of_two()).count();
    assert_eq!(done, worlds.len() * 22 + powers);
}

/// Counts the machines on which each algorithm performed each operation that it does not refuse.
#[test]
fn every_algorithm_does_what_it_claims_on_every_machine() {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let machines = long_tests::members(MACHINES, 4);
    for (machine, algorithm) in machines.flat_map(|m| algorithms().into_iter().map(move |a| (m, a)))
    {
        let (name, ranks) = (algorithm.name(), machine.world());
        for operation in operations(ranks, 5, ReduceOp::Avg) {
            let elements = divided(operation, ranks, 37);
            match check(name, operation, machine, Given::each(machine, elements, DType::F32, 1)) {
                Ok(()) => *counts.entry((name, operation.name())).or_default() += 1,
                Err(DistError::Refused { .. }) => {}
                Err(error) => panic!("{name} {operation} on {machine:?}: {error}"),
            }
        }
    }
    assert_eq!(counts.len(), 23);
    if !long_tests::all() {
        return;
    }
    let lines: Vec<_> =
        counts.iter().map(|((name, what), n)| format!("{name} {what} {n}")).collect();
    expect![[r#"
        direct all_gather 15
        direct all_reduce 15
        direct all_to_all 15
        direct broadcast 15
        direct gather 15
        direct reduce 15
        direct reduce_scatter 15
        direct scatter 15
        grid all_gather 15
        grid all_reduce 15
        grid reduce_scatter 15
        halving-doubling all_gather 15
        halving-doubling all_reduce 15
        halving-doubling reduce_scatter 7
        lrab all_reduce 13
        ring all_gather 15
        ring all_reduce 15
        ring broadcast 15
        ring reduce 15
        ring reduce_scatter 15
        tree all_reduce 15
        tree broadcast 15
        tree reduce 15"#]]
    .assert_eq(&lines.join("\n"));
}
