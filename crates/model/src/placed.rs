//! Statements on the distribution of a model that do not follow from its dimensions alone.

use super::cut::{Cut, Phase, Workload};
use super::layout::Held;
use super::measure::MeasureConfig;

/// Maximum number of SIPs of a machine.
const MOST_SIPS: u64 = 16;

impl MeasureConfig {
    /// Returns the minimum number of SIPs of this kind whose memory holds the model's weights and caches; `None` if it
    /// exceeds the maximum of a machine.
    pub fn least_sips(&self) -> Option<u64> {
        let capacity = self.topology.spec().hbm.slice.get();
        let cut = |sips| Cut::new(&self.spec, self.work, &self.topology, sips);
        (1..=MOST_SIPS).find(|&sips| cut(sips).is_ok_and(|cut| cut.held_bytes() <= capacity))
    }
}

impl Cut {
    /// Returns the bytes of weights and caches per PE, excluding biases, scales, norms and routers.
    pub fn held_bytes(&self) -> u64 {
        let weights = [Held::Qkv, Held::Output, Held::GateUp, Held::Down, Held::Head, Held::Table];
        let weights: u64 = weights.into_iter().map(|held| self.bytes_of(held)).sum();
        weights + self.cache_bytes() + self.rest.as_deref().map_or(0, Self::cache_bytes)
    }

    /// Returns the bytes of the caches of K and V per PE, for all layers.
    pub fn cache_bytes(&self) -> u64 {
        self.bytes_of(Held::Keys) + self.bytes_of(Held::Values)
    }

    /// Returns a sentence for each dimension that is padded, replicated or divided unevenly.
    pub fn placement_notes(&self) -> Vec<String> {
        let (spec, all) = (&self.spec, self.all());
        let padded = |what: &str, value: u64, padded: u64, over: u64| {
            let text = format!("{what}: {value} padded to {padded}, a multiple of {over} PEs");
            (padded > value).then_some(text)
        };
        let mut notes = Vec::new();
        notes.extend(padded("vocabulary", spec.vocab, self.vocab(), all));
        let sharers = self.sharers();
        notes.extend(padded("inner features", spec.ffn, self.inner() * sharers, sharers));
        notes.extend(padded("hidden features", spec.hidden, self.hidden(), self.pes));
        notes.extend(self.head_notes());
        notes.extend(self.expert_notes());
        notes.extend(self.step_notes());
        if spec.family.is_tied {
            let text = "tied embedding: stored as table and as head, which are divided differently";
            notes.push(text.to_owned());
        }
        notes
    }

    /// Returns the placement of experts, and the number of experts that the tokens of a step use.
    fn expert_notes(&self) -> Vec<String> {
        let Some(routing) = &self.routing else { return Vec::new() };
        let (count, used, tokens) = (routing.experts.count, routing.used, routing.tokens);
        let place = match routing.places {
            1 => format!("each divided over all {} PEs", self.all()),
            places => {
                let cubes = self.sips * self.cubes / places;
                format!("{} at each of {places} places of {cubes} cubes", routing.local)
            }
        };
        let expected = routing.experts.expected(tokens);
        vec![
            format!("experts: {count}, {place}; the router is on every PE"),
            format!(
                "a step of {tokens} tokens uses {used} experts: E (1 − (1 − k/E)^T) = {expected:.2}, k = {}",
                routing.experts.active
            ),
        ]
    }

    /// Returns the division of the sequences of prefill into steps, if it is uneven or padded.
    fn step_notes(&self) -> Vec<String> {
        let Workload { phase, context, chunk, .. } = self.work;
        let (at_once, rounds, mut notes) = (self.sequences, self.rounds(), Vec::new());
        if phase == Phase::Decode {
            return notes;
        }
        if let Some(rest) = &self.rest {
            let left = rest.sequences;
            notes
                .push(format!("sequences: {at_once} at once, {rounds} times, then {left} at once"));
        }
        for cut in [Some(self), self.rest.as_deref()].into_iter().flatten() {
            let (tokens, padded, parts) = (cut.tokens(), cut.each * cut.positions(), cut.parts);
            if tokens > chunk {
                notes.push(format!(
                    "chunk: {chunk} tokens raised to {tokens}, one for each of {parts} PEs that share \
                     each of {} sequences",
                    cut.sequences
                ));
            }
            if padded > context {
                notes.push(format!(
                    "tokens: {context} of a sequence padded to {padded}, in steps of {}, for {parts} PEs \
                     that share it; padding takes time, and is in no bound",
                    cut.each
                ));
            }
        }
        notes
    }

    fn head_notes(&self) -> Vec<String> {
        let (heads, spec) = (&self.heads, &self.spec);
        let mut notes = Vec::new();
        let kv = spec.kv_heads;
        if heads.copies > 1 {
            notes.push(format!("heads of K and V: {kv}, of each {} copies", heads.copies));
        }
        if heads.padding() > 0 {
            let slots = heads.all_slots;
            notes.push(format!(
                "heads of K and V: {kv} padded to {slots}, as many per group of cubes"
            ));
        }
        if heads.slots > 1 {
            let (slots, cubes) = (heads.slots, heads.group_cubes);
            notes.push(format!("heads of K and V: {slots} per group of {cubes} cubes"));
        }
        if heads.pieces > 1 {
            let (share, pieces) = (heads.share, heads.pieces);
            notes.push(format!("output of heads of Q: {share}/{pieces} of a head for each cube"));
        }
        notes
    }
}
