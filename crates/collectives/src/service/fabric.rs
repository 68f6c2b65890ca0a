//! Simulation of exchanges on a machine whose SIPs are the ranks.

use std::collections::BTreeMap;

use cubeyard_device::topology::Topology;
use cubeyard_memory::address::SipId;
use cubeyard_runtime::{Context, ContextConfig, RuntimeError, Tensor};
use cubeyard_sim::Span;

use super::{Exchange, ExchangeKind};
use crate::collective::{Operation, Order, Orders, ReduceOp, combine};
use crate::distributed::{CclConfig, DistError, Distributed, Pending, ProcessGroup, by_rows};

/// Duration of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Name of the algorithm.
    pub algorithm: &'static str,
    /// Time from the start of the first PE to the end of the last.
    pub duration: Span,
    /// Size as `cubeyard ccl` counts it: the larger of a rank's input and output.
    pub bytes: u64,
}

/// The machine of a world. Equal exchanges are simulated once for their time.
///
/// Numbers are computed in the order that the algorithm states. If the order matters and the algorithm states none,
/// every call is simulated.
#[derive(Debug)]
pub struct Fabric {
    topology: Topology,
    ccl: CclConfig,
    /// The machine that computes times only; `None` after a failure.
    timed: Option<Simulated>,
    /// The machine that computes values, once it is needed.
    valued: Option<Simulated>,
    timings: BTreeMap<Exchange, Timing>,
    /// Orders of each different output of reductions; `None` where they are not stated.
    orders: BTreeMap<Exchange, Option<Vec<Orders>>>,
    simulations: usize,
}

impl Fabric {
    /// Installs the channels of the group of all ranks on a machine without data.
    pub fn new(context: &Context, ccl: CclConfig) -> Result<Self, DistError> {
        let topology = context.machine(|machine| machine.topology().clone());
        let timed = Some(Simulated::new(context.clone(), &ccl)?);
        let (timings, orders) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { topology, ccl, timed, valued: None, timings, orders, simulations: 0 })
    }

    /// Returns the number of simulations so far.
    pub fn simulations(&self) -> usize {
        self.simulations
    }

    /// Returns whether the next call of an exchange needs no simulation.
    pub fn is_known(&self, exchange: &Exchange) -> bool {
        let is_stated =
            !depends_on_order(exchange) || self.orders.get(exchange).is_some_and(Option::is_some);
        self.timings.contains_key(exchange) && is_stated
    }

    /// Returns the duration of an exchange.
    pub fn timing(&mut self, exchange: &Exchange) -> Result<Timing, DistError> {
        if let Some(&known) = self.timings.get(exchange) {
            return Ok(known);
        }
        let (timing, _) = self.simulate(exchange, None)?;
        self.timings.insert(exchange.clone(), timing);
        Ok(timing)
    }

    /// Reduces the ranks' inputs, given as bytes. Returns one output if all ranks, or only the root, get it; else the
    /// output of each rank.
    pub fn reduce(
        &mut self,
        exchange: &Exchange,
        op: ReduceOp,
        inputs: &[&[u8]],
    ) -> Result<(Timing, Vec<Vec<u8>>), DistError> {
        let outputs = outputs(exchange, inputs);
        let combined = |orders: &[Orders]| -> Vec<Vec<u8>> {
            let pairs = orders.iter().zip(&outputs);
            pairs.map(|(orders, parts)| combine(op, exchange.dtype, orders, parts)).collect()
        };
        if !depends_on_order(exchange) {
            let whole = 0..exchange.count;
            let any = vec![(whole, Order::left_to_right(inputs.len()))];
            return Ok((self.timing(exchange)?, combined(&vec![any; outputs.len()])));
        }
        if let Some(orders) = self.stated(exchange)? {
            let outputs = combined(orders);
            return Ok((self.timing(exchange)?, outputs));
        }
        let (timing, results) = self.simulate(exchange, Some(inputs))?;
        Ok((*self.timings.entry(exchange.clone()).or_insert(timing), results))
    }

    /// Returns the orders of each different output, if the algorithm states them.
    fn stated(&mut self, exchange: &Exchange) -> Result<Option<&[Orders]>, DistError> {
        if !self.orders.contains_key(exchange) {
            let stated = self.world(false)?.orders(exchange)?;
            self.orders.insert(exchange.clone(), stated);
        }
        Ok(self.orders[exchange].as_deref())
    }

    /// Simulates an exchange. Given the bytes of each rank's input, also returns the outputs as
    /// [`reduce`](Self::reduce) does. A machine on which an exchange has failed is not used again.
    pub fn simulate(
        &mut self,
        exchange: &Exchange,
        inputs: Option<&[&[u8]]>,
    ) -> Result<(Timing, Vec<Vec<u8>>), DistError> {
        self.simulations += 1;
        let done = self.world(inputs.is_some())?.run(exchange, inputs);
        if done.is_err() {
            (self.timed, self.valued) = (None, None);
        }
        done
    }

    fn world(&mut self, data: bool) -> Result<&mut Simulated, DistError> {
        let place = if data { &mut self.valued } else { &mut self.timed };
        if place.is_none() {
            let topology = self.topology.clone();
            let context = Context::new(ContextConfig { topology, data, ..Default::default() });
            *place = Some(Simulated::new(context, &self.ccl)?);
        }
        Ok(place.as_mut().expect("made above"))
    }
}

/// A machine with process groups.
#[derive(Debug)]
struct Simulated {
    context: Context,
    dist: Distributed,
    /// Groups of some ranks.
    groups: BTreeMap<Vec<usize>, ProcessGroup>,
}

impl Simulated {
    fn new(context: Context, ccl: &CclConfig) -> Result<Self, DistError> {
        let dist = Distributed::new(&context);
        dist.init_with("ahbm", ccl)?;
        let world = dist.world()?;
        Ok(Self { context, dist, groups: BTreeMap::from([(world.members().to_vec(), world)]) })
    }

    fn run(
        &mut self,
        exchange: &Exchange,
        inputs: Option<&[&[u8]]>,
    ) -> Result<(Timing, Vec<Vec<u8>>), DistError> {
        if exchange.count == 0 && exchange.kind != ExchangeKind::Barrier {
            let timing = Timing { algorithm: "none", duration: Span::default(), bytes: 0 };
            return Ok((timing, vec![Vec::new(); exchange.ranks.len()]));
        }
        let mut tensors = Vec::new();
        for (place, &sip) in exchange.ranks.iter().enumerate() {
            tensors.push(self.tensors(exchange, sip, inputs.map(|inputs| inputs[place]))?);
        }
        let report = self.begin(exchange, &tensors)?.wait()?;
        let (algorithm, duration) = (report.algorithm, report.kernel);
        let timing = Timing { algorithm, duration, bytes: exchange.bytes() };
        let outputs = inputs.map(|_| read_outputs(exchange, &tensors)).transpose()?;
        Ok((timing, outputs.unwrap_or_default()))
    }

    fn begin(
        &mut self,
        exchange: &Exchange,
        tensors: &[Vec<Tensor>],
    ) -> Result<Pending, DistError> {
        if exchange.kind == ExchangeKind::Send {
            let ends = [0, 1].map(|place| (exchange.ranks[place], &tensors[place][0]));
            return self.dist.begin_send(ends[0], ends[1]);
        }
        let group = self.group(&exchange.ranks)?;
        let ExchangeKind::Collective(operation) = exchange.kind else {
            return self.dist.begin_barrier(&group);
        };
        let pairs: Vec<_> = tensors.iter().map(|held| (&held[0], &held[held.len() - 1])).collect();
        self.dist.begin_in(&group, operation, &pairs)
    }

    fn orders(&mut self, exchange: &Exchange) -> Result<Option<Vec<Orders>>, DistError> {
        let Some((operation, _)) = exchange.reduction() else { return Ok(None) };
        if exchange.count == 0 {
            return Ok(Some(vec![Orders::new(); output_count(exchange)]));
        }
        let input = &self.tensors(exchange, exchange.ranks[0], None)?[0];
        let group = self.group(&exchange.ranks)?;
        self.dist.orders_in(&group, operation, input)
    }

    fn group(&mut self, ranks: &[usize]) -> Result<ProcessGroup, DistError> {
        if let Some(known) = self.groups.get(ranks) {
            return Ok(known.clone());
        }
        let group = self.dist.new_group(ranks)?;
        self.groups.insert(ranks.to_vec(), group.clone());
        Ok(group)
    }

    /// Returns a rank's tensors on its SIP: the input and, where it is another tensor, the output.
    fn tensors(
        &self,
        exchange: &Exchange,
        sip: usize,
        input: Option<&[u8]>,
    ) -> Result<Vec<Tensor>, DistError> {
        let sip = u32::try_from(sip).ok().and_then(|sip| SipId::new(sip).ok());
        let placement = by_rows(sip.expect("a rank of the world is a SIP"));
        let make = |shape: &Vec<u64>| -> Result<Tensor, RuntimeError> {
            self.context.zeros(shape, exchange.dtype)?.to(&placement)
        };
        let tensors = exchange.shapes().iter().map(make).collect::<Result<Vec<_>, _>>()?;
        if let (Some(input), Some(tensor)) = (input, tensors.first()) {
            tensor.write_bytes(arranged(exchange, input, tensor)?)?;
        }
        Ok(tensors)
    }
}

/// Returns whether the order of combination can change a bit of an exchange's result.
fn depends_on_order(exchange: &Exchange) -> bool {
    let (dtype, ranks) = (exchange.dtype, exchange.ranks.len());
    exchange.reduction().is_some_and(|(_, op)| op.depends_on_order(dtype, ranks))
}

/// Returns the number of different outputs of a reduction.
fn output_count(exchange: &Exchange) -> usize {
    match exchange.reduction() {
        Some((Operation::ReduceScatter(_), _)) => exchange.ranks.len(),
        _ => 1,
    }
}

/// Returns the parts of all inputs that each different output combines.
fn outputs<'i>(exchange: &Exchange, inputs: &[&'i [u8]]) -> Vec<Vec<&'i [u8]>> {
    let count = output_count(exchange);
    let part = inputs.first().map_or(0, |input| input.len() / count);
    let of = |place: usize| {
        let range = place * part..(place + 1) * part;
        inputs.iter().map(|input| &input[range.clone()]).collect()
    };
    (0..count).map(of).collect()
}

/// Returns a rank's input as the machine holds it. If the input is divided, every PE has its share of each part.
fn arranged(exchange: &Exchange, input: &[u8], tensor: &Tensor) -> Result<Vec<u8>, RuntimeError> {
    if output_count(exchange) == 1 {
        return Ok(input.to_vec());
    }
    let (ranks, part) = (exchange.ranks.len(), input.len() / exchange.ranks.len());
    let mut arranged = vec![0; input.len()];
    for shard in tensor.shards()? {
        let [offset, length] = [shard.offset_bytes, shard.nbytes]
            .map(|bytes| usize::try_from(bytes.get()).expect("within the input"));
        let (start, share) = (offset / ranks, length / ranks);
        for place in 0..ranks {
            let of = place * part + start..place * part + start + share;
            arranged[offset + place * share..][..share].copy_from_slice(&input[of]);
        }
    }
    Ok(arranged)
}

/// Returns the bytes of the outputs of a reduction: of the root, or of each rank.
fn read_outputs(
    exchange: &Exchange,
    tensors: &[Vec<Tensor>],
) -> Result<Vec<Vec<u8>>, RuntimeError> {
    let read = match exchange.reduction() {
        Some((Operation::Reduce(_, root), _)) => &tensors[root..=root],
        _ => tensors,
    };
    read.iter().map(|held| held[held.len() - 1].read_bytes()?.known()).collect()
}
