//! Statements on the distribution of a model that do not follow from its dimensions alone.

use std::collections::BTreeSet;

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
        let weights = [
            Held::Qkv,
            Held::Output,
            Held::GateUp,
            Held::Down,
            Held::GateUpExponents,
            Held::DownExponents,
        ];
        let weights = |cut: &Self| weights.map(|held| cut.bytes_of(held)).iter().sum::<u64>();
        let weights: u64 = self.kinds().map(weights).sum();
        let tables = self.bytes_of(Held::Head) + self.bytes_of(Held::Table);
        let rest = self.rest.as_deref().map_or(0, Self::cache_bytes);
        weights + tables + self.cache_bytes() + rest
    }

    /// Returns the bytes of the caches of K and V per PE, for all layers.
    pub fn cache_bytes(&self) -> u64 {
        let caches = |cut: &Self| cut.bytes_of(Held::Keys) + cut.bytes_of(Held::Values);
        self.kinds().map(caches).sum()
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
        for cut in self.kinds() {
            let (ffn, sharers) = (cut.spec.ffn, cut.sharers());
            notes.extend(padded("inner features", ffn, cut.inner() * sharers, sharers));
        }
        notes.extend(padded("hidden features", spec.hidden, self.hidden(), self.pes));
        notes.extend(self.head_notes());
        notes.extend(self.kinds().flat_map(Self::expert_notes));
        // Kinds of layers that differ in attention only have the same padding and experts.
        let mut known = BTreeSet::new();
        notes.retain(|note| known.insert(note.clone()));
        notes.extend(self.kind_notes());
        notes.extend(self.step_notes());
        if spec.family.is_tied {
            let text = "tied embedding: stored as table and as head, which are divided differently";
            notes.push(text.to_owned());
        }
        notes
    }

    /// Returns the number of layers of each kind, if there are several or if attention has a window.
    fn kind_notes(&self) -> Vec<String> {
        let of_kind = |cut: &Self| {
            let ffn = match &cut.routing {
                Some(routing) => format!("{} experts", routing.experts.count),
                None => format!("a feed-forward part of {} features", cut.spec.ffn),
            };
            let cached = cut.cached();
            let attention = match cut.window {
                Some(window) => {
                    format!("{}; their caches hold {cached} of a sequence", window.text())
                }
                None => "attention to all earlier tokens".to_owned(),
            };
            format!("{} of {} layers: {ffn}, {attention}", cut.layers, self.spec.layers)
        };
        let is_plain = self.others.is_empty() && self.window.is_none();
        if is_plain { Vec::new() } else { self.kinds().map(of_kind).collect() }
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
        let mut notes = vec![
            format!("experts: {count}, {place}; the router is on every PE"),
            format!(
                "a step of {tokens} tokens uses {used} experts: E (1 − (1 − k/E)^T) = {expected:.2}, k = {}",
                routing.experts.active
            ),
        ];
        if self.is_packed() {
            notes.push("weights of experts: MXFP4, 4.25 bits; the matrix engine reads them as they are stored, at the rate of the activations".to_owned());
        }
        let (shared, copies) = (routing.shared, routing.places);
        notes.extend((shared > 0).then(|| match copies {
            1 => format!("shared experts: {shared}, divided over all {} PEs", self.all()),
            _ => format!("shared experts: {shared}, a copy at each of {copies} places, for its part of the tokens"),
        }));
        notes
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
