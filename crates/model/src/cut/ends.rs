//! Embedding and head, which a stage of a pipeline may lack.

use super::Cut;

/// Parts before and after the layers that a distribution includes.
///
/// A whole model has both. Of the stages of a pipeline, the first has the embedding and the last has the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ends {
    /// Whether the embedding table is held, and a step begins with its lookup.
    pub has_embedding: bool,
    /// Whether the head is held, and a step ends with the last norm and the logits.
    pub has_head: bool,
}

impl Ends {
    /// Embedding and head, as of a whole model.
    pub const WHOLE: Self = Self { has_embedding: true, has_head: true };

    /// Returns the ends of a stage of a pipeline.
    ///
    /// ```
    /// use cubeyard_model::cut::Ends;
    ///
    /// assert_eq!(Ends::of_stage(0, 1), Ends::WHOLE);
    /// assert_eq!(Ends::of_stage(1, 2), Ends { has_embedding: false, has_head: true });
    /// ```
    pub fn of_stage(stage: u64, stages: u64) -> Self {
        Self { has_embedding: stage == 0, has_head: stage + 1 >= stages }
    }
}

impl Cut {
    /// Returns the distribution of a stage that includes only these ends.
    #[must_use]
    pub fn with_ends(mut self, ends: Ends) -> Self {
        self.ends = ends;
        self.others.iter_mut().for_each(|other| other.ends = ends);
        self.rest = self.rest.map(|rest| Box::new(rest.with_ends(ends)));
        self
    }
}
