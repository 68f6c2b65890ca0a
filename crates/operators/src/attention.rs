//! Attention, forward and backward, without storing the matrix of all scores.

mod pass;

use std::rc::Rc;

use crate::cost::{Measured, OperatorCost, Work};
use crate::error::{OperatorError, refused};
use crate::machine::OperatorMachine;
use crate::steady::{scaled, steady};
use crate::tensor::Tensor;
use pass::{Heads, Pass, Side};

/// Options of attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attention {
    /// Whether a token sees only itself and its predecessors.
    pub causal: bool,
    /// Whether the gradients of q, k and v are computed.
    pub backward: bool,
}

/// Sizes of resident blocks that are simulated, the best by an estimate; the quickest is taken.
const TRIED: usize = 3;

/// Tokens of a block that stays in a PE.
const RESIDENT: [u64; 5] = [1024, 512, 256, 128, 64];

/// Tokens of a block that is streamed.
const STREAMED: u64 = 128;

impl OperatorMachine {
    /// Returns the cost of attention: q `[b, h, s, d]`, k and v `[b, hkv, t, d]` to out like q. Backward, the operands also have
    /// out and its gradient, and the results are the gradients of q, k and v.
    pub fn attention(
        &self,
        operands: &[Tensor],
        results: &[Tensor],
        options: Attention,
    ) -> Result<OperatorCost, OperatorError> {
        let (wanted, outs) = if options.backward { (5, 3) } else { (3, 1) };
        if operands.len() < wanted || results.len() < outs {
            let (found, also) = (operands.len(), results.len());
            return refused(format!(
                "operands and results: expected at least {wanted} and {outs}, found {found} and {also}"
            ));
        }
        let heads = Heads::new(operands, options.causal)?;
        let pairs = heads.pairs();
        let products = if options.backward { 5 } else { 2 };
        let flops = products * 2 * pairs * heads.d;
        let bytes = operands[..wanted].iter().chain(&results[..outs]).map(Tensor::bytes).sum();
        // A power for each score, and a sum; backward two more products.
        let vector = [
            pairs * if options.backward { 3 } else { 2 },
            pairs,
            if options.backward { 0 } else { pairs },
        ];
        let work = Work { bytes, flops, factor: Some(operands[0].factor), vector };
        let (name, run) = self.run_attention(operands, results, &heads, options)?;
        Ok(work.cost(self, name, &run))
    }

    fn run_attention(
        &self,
        operands: &[Tensor],
        results: &[Tensor],
        heads: &Heads,
        options: Attention,
    ) -> Result<(String, Measured), OperatorError> {
        let [q, k, v] = [0, 1, 2].map(|at| Side::new(&operands[at], at));
        if !options.backward {
            let out = Side::new(&results[0], 3);
            let pass = Pass {
                pairs: vec![(q, k.clone())],
                sums: vec![(v, out)],
                is_softmax: true,
                is_by_keys: false,
            };
            return self.attention_pass(pass, heads, "attention");
        }
        let grad = Side::new(&operands[4], 3);
        let [dq, dk, dv] = [0, 1, 2].map(|at| Side::new(&results[at], 4 + at));
        let keys = Pass {
            pairs: vec![(k.clone(), q.clone()), (v.clone(), grad.clone())],
            sums: vec![(grad.clone(), dv), (q.clone(), dk)],
            is_softmax: false,
            is_by_keys: true,
        };
        let queries = Pass {
            pairs: vec![(q, k.clone()), (grad, v)],
            sums: vec![(k, dq)],
            is_softmax: false,
            is_by_keys: false,
        };
        let (name, first) = self.attention_pass(keys, heads, "attention backward: keys")?;
        let (also, second) = self.attention_pass(queries, heads, "queries")?;
        Ok((format!("{name}, {also}"), first.then(second)))
    }

    fn attention_pass(
        &self,
        pass: Pass,
        heads: &Heads,
        name: &str,
    ) -> Result<(String, Measured), OperatorError> {
        let mut storages = vec![1; 7];
        let sides = pass.pairs.iter().flat_map(|(one, other)| [one, other]);
        for side in sides.chain(pass.sums.iter().flat_map(|(one, other)| [one, other])) {
            storages[side.storage] = storages[side.storage].max(side.bytes);
        }
        let (pass, heads) = (Rc::new(pass), Rc::new(heads.clone()));
        let fits = |rows: &&u64| {
            let tiles = pass.pairs.len() as u64 + 2 * pass.sums.len() as u64;
            4 * **rows * (heads.d * tiles + 3 * STREAMED) + 8 * 2 * STREAMED * heads.d
                <= self.scratch() * 2 / 3
        };
        let mut fitting: Vec<u64> = RESIDENT.iter().filter(fits).copied().collect();
        fitting.sort_by_key(|rows| self.estimate_attention(&pass, &heads, *rows));
        fitting.truncate(TRIED);
        let mut best: Option<(String, Measured)> = None;
        for rows in fitting {
            let (name, blocks) = (format!("{name} {rows}x{STREAMED}"), [rows, STREAMED]);
            let run = |steps| {
                let stage = pass::stage(&pass, &heads, blocks, self.pes(), steps);
                self.run(&name, &storages, &[stage])
            };
            let total = pass::steps(&pass, &heads, blocks, self.pes());
            let run = steady(total, self.few(heads.few()), run)?;
            if best.as_ref().is_none_or(|(_, known)| run.ran.ps < known.ran.ps) {
                best = Some((name, run));
            }
        }
        match best {
            Some(best) => Ok(best),
            None => refused(format!(
                "operand 0: {} features, of which a PE cannot hold a block of 64 tokens",
                heads.d
            )),
        }
    }

    fn estimate_attention(&self, pass: &Pass, heads: &Heads, rows: u64) -> u64 {
        let steps = pass::steps(pass, heads, [rows, STREAMED], self.pes());
        let core = &self.topology().spec().pe.core;
        let rate = core.gemm.rates.get("f16").copied().unwrap_or(1).max(1);
        let products = (pass.pairs.len() + pass.sums.len()) as u64;
        let engine =
            scaled(steps * products * 2 * rows * STREAMED * heads.d, 1_500_000_000_000, rate);
        let loaded = steps * self.pes() * STREAMED * heads.d * 2 * pass.pairs.len() as u64;
        engine.max(scaled(loaded, 1_000_000_000_000, self.across()))
    }
}
