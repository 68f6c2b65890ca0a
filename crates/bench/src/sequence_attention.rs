//! Attention of one new token per sequence, with the KV cache spread by token.

use std::ops::Range;

use cubeyard_device::request::PeRef;
use cubeyard_device::topology::Topology;
use cubeyard_memory::Bytes;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, PlacementError, Split};
use cubeyard_runtime::shape::Shape;
use cubeyard_runtime::{RingConfig, RuntimeError};

use super::attention::{COMMANDS_OF_BLOCK, F16_ATTENTION, attention, attention_work, stored_keys};
use super::inputs::{at_least, fits_tcm, multiple, numbers, place, queries};
use super::links::links_among;
use super::reference::size;
use super::{Bench, BenchError, Lab, Needs, Outcome, Parameter, Values, Work};
use cubeyard_collectives::collective::{Operation, ReduceOp, World};
use cubeyard_collectives::distributed::KernelChannels;
use cubeyard_kernels::{sequence_attention, sequence_attention_wires};

pub(super) struct SequenceAttention;

/// Parameters of a run.
struct SequenceProblem {
    /// Number of sequences times heads of K and V.
    rows: u64,
    /// Heads of Q that share one head of K and V.
    group: u64,
    features: u64,
    context: u64,
    block: u64,
    cubes: u64,
    pes: u64,
}

/// PEs of a launch, and the tokens of each PE.
type Parts = Vec<(PeRef, Range<usize>)>;

impl Bench for SequenceAttention {
    fn name(&self) -> &'static str {
        "sequence-attention"
    }

    fn summary(&self) -> &'static str {
        "decode attention over a KV cache sharded by token: partial results of PEs are joined by messages"
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![
            Parameter::whole("batch", 1, (1, 1 << 12), "number of sequences"),
            Parameter::whole("context", 8192, (1, 1 << 24), "cached tokens per sequence"),
            Parameter::whole("q-heads", 64, (1, 1024), "heads of Q; Llama-70B has 64"),
            Parameter::whole("kv-heads", 8, (1, 1024), "heads of K and V; Llama-70B has 8"),
            Parameter::whole("head-dim", 128, (1, 1024), "features per head"),
            Parameter::whole("block-k", 256, (1, 1 << 16), "tokens per block of K and V"),
            Parameter::whole("cubes", 2, (1, 64), "number of cubes"),
            Parameter::whole("pes", 8, (1, 64), "PEs per cube"),
        ]
    }

    fn needs(&self, values: &Values, _: &Topology, _: u64) -> Needs {
        let [batch, context, q_heads, kv_heads, features, block] =
            values.wholes(["batch", "context", "q-heads", "kv-heads", "head-dim", "block-k"]);
        let blocks = context.div_ceil(block);
        Needs::elements([2, batch, kv_heads, context, features])
            + Needs::elements([2, batch, q_heads, features])
            + Needs::commands([COMMANDS_OF_BLOCK, batch, kv_heads, blocks])
    }

    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        let problem = SequenceProblem::new(lab, values)?;
        let SequenceProblem { rows, group, features, context, block, cubes, pes } = problem;
        let by_token = lab.placement(Split::RowWise, Split::RowWise, cubes, pes);
        let copies = lab.placement(Split::Replicate, Split::Replicate, cubes, pes);
        let parts = problem.parts(lab, &by_token)?;
        let q = queries(lab, rows * group * features, 1);
        let [k, v] = [2, 3].map(|seed| numbers(lab, rows * context * features, seed));
        let [keys, kept] = [problem.stored(&k, &parts, true), problem.stored(&v, &parts, false)];
        let (of_cache, slots) = ([context, rows * features], rows.div_ceil(cubes * pes));
        let tensors = [
            place(lab, &[rows, group * features], DType::F16, &copies, &q)?,
            place(lab, &of_cache, DType::F16, &by_token, &keys)?,
            place(lab, &of_cache, DType::F16, &by_token, &kept)?,
            lab.context
                .zeros(&[cubes * pes, slots * group * features], DType::F16)?
                .to(&by_token)?,
        ];
        let wired = problem.wire(lab, &parts)?;
        wired.use_on(&lab.launcher);
        lab.launch(
            &sequence_attention(),
            tensors.iter().collect(),
            vec![features, block],
            cubes,
            pes,
        )?;
        let check = lab.check(&tensors[3], F16_ATTENTION, || problem.expected(&q, &k, &v))?;
        Ok(Outcome { work: problem.work(lab, &parts), check, ..Outcome::default() })
    }
}

impl SequenceProblem {
    fn new(lab: &Lab, values: &Values) -> Result<Self, BenchError> {
        let [q, kv, batch, features, context, block, cubes, pes] = values.wholes([
            "q-heads", "kv-heads", "batch", "head-dim", "context", "block-k", "cubes", "pes",
        ]);
        multiple("q-heads", q, kv, "as many for each of the kv-heads")?;
        at_least("context", context, cubes * pes, "one for each PE; or set cubes or pes")?;
        let (rows, group) = (batch * kv, q / kv);
        let block = block.min(context.div_ceil(cubes * pes));
        // Sums of all rows, received sums, and two blocks of K and V with their scores.
        let sums = 4 * group * (features + 2);
        let bytes = (rows + 4) * sums + 8 * block * features + 24 * group * block;
        let what = format!("the sums of {rows} rows and two blocks of K and V");
        fits_tcm(lab, bytes, &what, "fewer sequences or heads, or a smaller block-k")?;
        Ok(Self { rows, group, features, context, block, cubes, pes })
    }

    /// Returns the tokens of each PE.
    fn parts(&self, lab: &Lab, over: &Placement) -> Result<Parts, RuntimeError> {
        let layout = lab.context.machine(|machine| {
            let shape = Shape::new(&[self.context, 1]).map_err(PlacementError::from)?;
            over.resolve(shape, DType::F16, machine.topology())
        });
        let part = |rows: &Range<u64>| size(rows.start)..size(rows.end);
        Ok(layout?.shards().iter().map(|shard| (shard.at, part(&shard.rows))).collect())
    }

    /// Arranges a cache as PEs hold it: by part, then by row, with keys in the kernels' layout.
    fn stored(&self, cache: &[f64], parts: &Parts, are_keys: bool) -> Vec<f64> {
        let features = size(self.features);
        let mut stored = Vec::with_capacity(cache.len());
        for (_, tokens) in parts {
            for row in cache.chunks_exact(size(self.context) * features) {
                let of_part = &row[tokens.start * features..tokens.end * features];
                if are_keys {
                    let count = tokens.len() as u64;
                    stored.extend(stored_keys(of_part, count, self.features, self.block));
                } else {
                    stored.extend_from_slice(of_part);
                }
            }
        }
        stored
    }

    /// Connects the PEs by channels; a slot holds the value sums of a row, and a ring holds two rows.
    fn wire(&self, lab: &Lab, parts: &Parts) -> Result<KernelChannels, BenchError> {
        let pes: Vec<_> = parts.iter().map(|(pe, _)| *pe).collect();
        let slot_bytes = Bytes::new(4 * self.group * self.features);
        let ring = RingConfig { slots: 6, slot_bytes, ..RingConfig::default() };
        let wires = sequence_attention_wires(pes.len());
        Ok(KernelChannels::new(&lab.launcher, &pes, &wires, &ring)?)
    }

    /// Returns the expected output; row `i` is on PE `i` modulo the number of PEs.
    fn expected(&self, q: &[f64], k: &[f64], v: &[f64]) -> Vec<f64> {
        let [token, cache] = [self.group, self.context].map(|count| size(count * self.features));
        let (pes, rows) = (size(self.cubes * self.pes), size(self.rows));
        let mut expected = vec![0.0; rows.div_ceil(pes) * pes * token];
        let inputs = q.chunks_exact(token).zip(k.chunks_exact(cache)).zip(v.chunks_exact(cache));
        for (row, ((q, k), v)) in inputs.enumerate() {
            let at = (row % pes * rows.div_ceil(pes) + row / pes) * token;
            let result = attention(q, k, v, self.features, |_| size(self.context));
            expected[at..at + token].copy_from_slice(&result);
        }
        expected
    }

    /// Returns the work: the work of one PE, plus the messages by which all PEs but one pass on their part of each row;
    /// the receiving PEs alternate.
    fn work(&self, lab: &Lab, parts: &Parts) -> Work {
        let Self { rows, group, features, context, .. } = *self;
        let (scores, ranks) = (rows * group * context, parts.len() as u64);
        let engine =
            |pe: &PeRef| vec![lab.context.machine(|machine| machine.topology().pe_dma(*pe))];
        let members: Vec<_> = parts.iter().map(|(pe, _)| engine(pe)).collect();
        // It is a reduce-scatter only if all PEs receive the same number of rows.
        let shared = 4 * (rows / ranks * ranks) * group * (features + 2);
        let (world, operation) =
            (World::ring(parts.len()), Operation::ReduceScatter(ReduceOp::Sum));
        Work {
            bytes: 2 * rows * features * (2 * context + group * (ranks + 1)),
            links: links_among(lab, &members, &world, operation, shared),
            ..attention_work(lab, scores, features, group, 2 * rows * group * features)
        }
    }
}
