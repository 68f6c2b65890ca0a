//! The numbers of the service equal a slow sum in the stated order, element by element.

#![expect(clippy::cast_possible_truncation, reason = "ranks and elements of tests are few")]

use std::collections::BTreeMap;
use std::ops::Range;

use cubeyard_collectives::collective::{Operation, Order, Orders, ReduceOp};
use cubeyard_collectives::distributed::{DistError, Distributed};
use cubeyard_collectives::service::{Action, Call, Service, ServiceError};
use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::{DType, Element as _};
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, ContextConfig};
use proptest::prelude::*;

use crate::service::{fabric, machine};
use crate::service_calls::memory;
use crate::service_order::{GROUPS, RANKS, floats, sizes, walk};

const ALGORITHMS: [&str; 7] =
    ["auto", "direct", "ring", "tree", "halving-doubling", "lrab", "grid"];

/// A reduction of the ranks of a group.
#[derive(Clone, Debug)]
struct Reduction {
    algorithm: &'static str,
    members: &'static [usize],
    operation: Operation,
    count: u64,
}

impl Reduction {
    fn op(&self) -> ReduceOp {
        self.operation.op().expect("a reduction")
    }

    /// Returns whether each rank gets a part of the result.
    fn is_divided(&self) -> bool {
        matches!(self.operation, Operation::ReduceScatter(_))
    }

    fn sizes(&self, place: usize) -> [usize; 2] {
        sizes(Action::Collective(self.operation), place, self.members.len(), self.count)
    }

    fn input(&self, place: usize) -> Vec<f32> {
        floats(place as u64, self.sizes(place)[0] / 4)
    }

    /// Performs the reduction; returns the bytes of the outputs by place.
    fn perform(&self, arrival: &[usize]) -> Result<BTreeMap<usize, Vec<u8>>, ServiceError> {
        let mut service = Service::new(fabric(RANKS, self.algorithm), RANKS);
        let (mut answered, mut seen) = (Vec::new(), BTreeMap::new());
        for &place in arrival.iter().filter(|&&place| place < self.members.len()) {
            let input = f32::slice_to_bytes(&self.input(place));
            let (memory, output) = memory(&input, self.sizes(place)[1]);
            seen.insert(place, output);
            let action = Action::Collective(self.operation);
            let call = Call::new(self.members[place], self.members.to_vec(), action, memory);
            let call = Call { dtype: DType::F32, count: self.count, ..call };
            service.post(call, 0.0, &|_| (), &mut answered)?;
        }
        assert_eq!(answered.len(), self.members.len());
        Ok(seen.into_iter().map(|(place, seen)| (place, seen.lock().unwrap().clone())).collect())
    }

    /// Returns the orders of each output that the group states on a machine of its own.
    fn stated(&self) -> Vec<Orders> {
        let (topology, ccl) = machine(RANKS, self.algorithm);
        let context = Context::new(ContextConfig { topology, ..Default::default() });
        let dist = Distributed::new(&context);
        dist.init_with("ahbm", &ccl).unwrap();
        let group = dist.new_group(self.members).unwrap();
        let parts = if self.is_divided() { vec![self.members.len() as u64] } else { vec![] };
        let shape = [vec![self.count], parts].concat();
        let sips = vec![SipId::new(self.members[0] as u32).unwrap()];
        let (cube, pe) = (Split::RowWise, Split::RowWise);
        let placement = Placement { cube, pe, sips, ..Placement::default() };
        let input = context.zeros(&shape, DType::F32).unwrap().to(&placement).unwrap();
        dist.orders_in(&group, self.operation, &input).unwrap().expect("stated by each of ours")
    }

    /// Returns the bytes of each rank's output, combined element by element.
    fn expected(&self) -> BTreeMap<usize, Vec<u8>> {
        let orders = self.stated();
        let inputs: Vec<_> = (0..self.members.len()).map(|place| self.input(place)).collect();
        let output = |place: usize| {
            let which = if self.is_divided() { place } else { 0 };
            let start = which * self.count as usize;
            let parts: Vec<_> = inputs.iter().map(|of| &of[start..]).collect();
            let is_given = self.operation.root().is_none_or(|root| root == place);
            let values = if is_given { self.combined(&orders[which], &parts) } else { vec![] };
            (place, f32::slice_to_bytes(&values))
        };
        (0..self.members.len()).map(output).collect()
    }

    fn combined(&self, orders: &Orders, inputs: &[&[f32]]) -> Vec<f32> {
        let op = self.op();
        let join = |a: f32, b: f32| if op == ReduceOp::Prod { a * b } else { a + b };
        let divisor = if op == ReduceOp::Avg { inputs.len() as f32 } else { 1.0 };
        let of = |(range, order): &(Range<u64>, Order)| {
            let element = |at: u64| order.evaluate(&|rank: usize| inputs[rank][at as usize], &join);
            range.clone().map(|at| element(at) / divisor).collect::<Vec<_>>()
        };
        orders.iter().flat_map(of).collect()
    }
}

type Fields = (&'static str, (&'static str, &'static [usize]), ReduceOp, usize, usize);

fn reduction() -> impl Strategy<Value = Reduction> {
    let algorithm = prop::sample::select(ALGORITHMS.to_vec());
    let op = prop::sample::select(vec![ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Prod]);
    let fields = (algorithm, prop::sample::select(GROUPS.to_vec()), op, 0..3_usize, 0..RANKS);
    let made = |((algorithm, (_, members), op, which, root), count): (Fields, u64)| {
        let all_reduce = Operation::AllReduce(op);
        let reduce = Operation::Reduce(op, root % members.len());
        let operation = [all_reduce, reduce, Operation::ReduceScatter(op)][which];
        Reduction { algorithm, members, operation, count }
    };
    (fields, 1_u64..200).prop_map(made)
}

proptest! {
    #![proptest_config(walk(200))]

    #[test]
    fn numbers_are_those_of_a_slow_sum_in_the_stated_order(
        reduction in reduction(),
        arrival in Just((0..RANKS).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        match reduction.perform(&arrival) {
            // Some algorithms do not support all operations and numbers of ranks.
            Err(ServiceError::Machine(DistError::Refused { .. })) => prop_assume!(false),
            outputs => prop_assert_eq!(outputs.unwrap(), reduction.expected()),
        }
    }
}
