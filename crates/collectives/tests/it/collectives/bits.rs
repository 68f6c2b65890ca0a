//! Reductions give the bits of the stated order on every rank, in every memory, with background traffic.

use cubeyard_collectives::collective::{PePart, combine};
use cubeyard_collectives::distributed::Ranks;
use cubeyard_runtime::random_bits;

use super::*;

/// A reduction of random numbers.
#[derive(Clone, Debug)]
struct Bits {
    case: Case,
    seed: u64,
}

/// Draws values whose sums depend on their order: many exponents, both signs, zeros, infinities and NaN.
fn draw(bits: u64, dtype: DType) -> f64 {
    if !dtype.is_float() {
        return (bits % if dtype == DType::Bool { 2 } else { 100 }) as f64;
    }
    let sign = if bits & 1 == 0 { 1.0 } else { -1.0 };
    sign * match bits >> 8 & 0x1f {
        0..6 => 0.0,
        6 => f64::INFINITY,
        7 => f64::NAN,
        _ => (1.0 + (bits >> 40) as f64 / f64::from(1 << 24)) * ((bits >> 16 & 7) as f64).exp2(),
    }
}

/// Computes the result of all ranks at one position from the bytes of each rank.
fn stated(
    algorithm: &dyn Algorithm,
    operation: Operation,
    group: &Group,
    inputs: &[Vec<u8>],
    (dtype, is_odd): (DType, bool),
) -> Vec<u8> {
    let elements = inputs[0].len() as u64 / dtype.size();
    let orders = algorithm.orders(operation, group.world(), PePart { elements, is_odd });
    let inputs: Vec<_> = inputs.iter().map(Vec::as_slice).collect();
    combine(operation.op().unwrap(), dtype, &orders.expect("stated by each of ours"), &inputs)
}

/// Runs a reduction and compares the bits of each rank with the stated order.
fn check_bits(operation: Operation, bits: &Bits) -> Result<(), DistError> {
    let Case { machine, dtype, name, .. } = bits.case;
    let given = bits.case.given(operation);
    let lab = Lab::new(name, machine, given)?;
    let (ranks, width) = (machine.world(), dtype.width());
    let (grow, shrink) = operation.growth(ranks as u64);
    let output_width = given.elements * grow / shrink;
    let mut inputs = vec![vec![Vec::new(); ranks]; machine.position_count()];
    let mut tensors = Vec::new();
    for sip in 0..machine.topology().sips().count() {
        let count = given.rows * given.elements;
        let seed = bits.seed.wrapping_add(sip as u64);
        let values = (0..count).map(|element| draw(random_bits(seed, element), dtype));
        let values: Vec<_> = values.collect();
        let input = lab.context.from_slice(&[given.rows, given.elements], &values)?;
        let input = input.to_dtype(dtype)?.to(&rows(sip))?;
        let bytes = input.read_bytes()?.known()?;
        for shard in given.layout(machine, sip, given.elements).shards() {
            let (rank, position) = owner(machine, sip, shard);
            let held = range(shard, given.elements);
            inputs[position][rank] = bytes[held.start * width..held.end * width].to_vec();
        }
        let output = lab.context.zeros(&[given.rows, output_width], dtype)?.to(&rows(sip))?;
        tensors.push((input, output));
    }
    let pairs: Vec<_> = tensors.iter().map(|(input, output)| (input, output)).collect();
    lab.run(operation, &pairs, machine, given)?;
    let algorithm = algorithm(name);
    for (sip, (_, output)) in tensors.iter().enumerate() {
        let found = output.read_bytes()?.known()?;
        for shard in given.layout(machine, sip, output_width).shards() {
            let (rank, position) = owner(machine, sip, shard);
            if operation.root().is_some_and(|root| root != rank) {
                continue;
            }
            let is_odd = machine.ranks != Ranks::Pe && position % 2 == 1;
            let kind = (dtype, is_odd);
            let whole = stated(&*algorithm, operation, &lab.group, &inputs[position], kind);
            let elements = whole.len() / width;
            let part = match operation {
                Operation::ReduceScatter(_) => {
                    elements * rank / ranks..elements * (rank + 1) / ranks
                }
                _ => 0..elements,
            };
            let held = range(shard, output_width);
            assert!(
                found[held.start * width..held.end * width]
                    == whole[part.start * width..part.end * width],
                "other bits: {name} {operation}, rank {rank} {position}: {bits:?}"
            );
        }
    }
    Ok(())
}

/// In a ring of three SIPs, each rank of `lrab` added tiles in the order of their arrival: 1,313 of 4,096 sums of `f32`
/// differed between ranks. With two SIPs, each rank kept the sign of its own zero in a maximum.
#[test]
fn every_rank_of_a_ring_gets_the_same_bits() {
    for (count, op) in
        [(2, ReduceOp::Max), (3, ReduceOp::Sum), (3, ReduceOp::Max), (6, ReduceOp::Sum)]
    {
        let case = Case {
            machine: sips(COUNTS[count - 1]),
            rows: 2,
            elements: 200,
            root: 0,
            op,
            dtype: DType::F32,
            which: 0,
            name: "lrab",
            ring: ring(4),
            beside: None,
        };
        check_bits(Operation::AllReduce(op), &Bits { case, seed: 1 }).unwrap();
    }
}

/// The stated order copied the input of a lone rank, but the machine divides a mean by one. The bits of a NaN differed.
#[test]
fn a_mean_of_one_rank_is_a_quotient() {
    let case = Case {
        machine: sips(COUNTS[0]),
        rows: 1,
        elements: 82,
        root: 0,
        op: ReduceOp::Avg,
        dtype: DType::F32,
        which: 2,
        name: "halving-doubling",
        ring: ring(4),
        beside: None,
    };
    for seed in 0..10 {
        let bits = Bits { case: case.clone(), seed };
        check_bits(Operation::ReduceScatter(ReduceOp::Avg), &bits).unwrap();
    }
}

/// Every reduction by every algorithm gives the bits of its stated order on every rank, with slots in every memory and
/// background traffic.
#[test]
fn reductions_give_the_bits_of_their_stated_order_on_every_rank() {
    let done = Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(long_tests::cases(500)));
    let all = (cases(), any::<u64>()).prop_map(|(case, seed)| Bits { case, seed });
    let result = runner.run(&all, |bits| {
        let case = &bits.case;
        prop_assume!(case.op.suits(case.dtype));
        let root = case.root % case.machine.world();
        let operations = [
            Operation::AllReduce(case.op),
            Operation::Reduce(case.op, root),
            Operation::ReduceScatter(case.op),
        ];
        let operation = operations[case.which % 3];
        match check_bits(operation, &bits) {
            Ok(()) => done.set(done.get() + 1),
            Err(DistError::Refused { .. }) => {}
            Err(error) => panic!("{operation} on {bits:?}: {error}"),
        }
        Ok(())
    });
    result.unwrap();
    assert!(done.get() > if long_tests::all() { 150 } else { 5 }, "{}", done.get());
}
