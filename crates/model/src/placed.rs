//! Statements on the distribution of a model that its dimensions alone do not tell.

use super::cut::Cut;

impl Cut {
    /// Returns a sentence for each dimension that is padded, replicated or divided unevenly.
    pub fn placement_notes(&self) -> Vec<String> {
        let (spec, all) = (&self.spec, self.all());
        let padded = |what: &str, value: u64, padded: u64, over: u64| {
            let text = format!("{what}: {value} padded to {padded}, a multiple of {over} PEs");
            (padded > value).then_some(text)
        };
        let mut notes = Vec::new();
        notes.extend(padded("vocabulary", spec.vocab, self.vocab(), all));
        notes.extend(padded("inner features", spec.ffn, self.inner() * all, all));
        notes.extend(padded("hidden features", spec.hidden, self.hidden(), self.pes));
        notes.extend(self.head_notes());
        if spec.family.is_tied {
            let text = "tied embedding: stored as table and as head, which are divided differently";
            notes.push(text.to_owned());
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
