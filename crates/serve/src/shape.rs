//! Shapes of batches, and the time of a step.

use cubeyard_units::Span;

use crate::error::ServeError;

/// Part of a prompt that a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chunk {
    /// Number of tokens of the part.
    pub tokens: u64,
    /// Number of tokens of the sequence before the part.
    pub position: u64,
}

/// Shape of a batch: all that determines the time of its step.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepShape {
    /// Number of sequences that compute one token each, after others.
    pub decodes: u64,
    /// Total number of tokens of these sequences, including the new ones.
    pub context: u64,
    /// Parts of prompts, in the order of their requests.
    pub chunks: Vec<Chunk>,
    /// Number of sequences that receive a token at the end of the step.
    pub sampled: u64,
}

impl StepShape {
    /// Adds a sequence that computes `tokens` tokens after `position` others.
    pub fn add(&mut self, tokens: u64, position: u64) {
        if tokens == 1 && position > 0 {
            self.decodes += 1;
            self.context += position + 1;
        } else {
            self.chunks.push(Chunk { tokens, position });
        }
    }

    /// Returns the number of tokens of the batch.
    pub fn tokens(&self) -> u64 {
        self.decodes + self.chunks.iter().map(|chunk| chunk.tokens).sum::<u64>()
    }

    /// Returns the mean number of tokens of the sequences that decode, rounded up.
    pub fn mean_context(&self) -> u64 {
        self.context.div_ceil(self.decodes.max(1))
    }
}

/// Times of steps, by the shapes of their batches.
pub trait StepTimes {
    /// Returns the time of a step. It depends on nothing but the shape.
    fn span(&mut self, shape: &StepShape) -> Result<Span, ServeError>;
}

/// Times that grow linearly with the tokens of a batch, for closed forms.
#[derive(Clone, Copy, Debug)]
pub struct LinearTimes {
    /// Time of a step without tokens.
    pub fixed: Span,
    /// Time of each token.
    pub per_token: Span,
}

impl StepTimes for LinearTimes {
    fn span(&mut self, shape: &StepShape) -> Result<Span, ServeError> {
        Ok(self.fixed + self.per_token * shape.tokens())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_token_after_others_is_a_decode_and_the_first_token_of_a_prompt_is_a_chunk() {
        let mut shape = StepShape::default();
        for (tokens, position) in [(1, 7), (1, 0), (3, 4), (1, 8)] {
            shape.add(tokens, position);
        }
        let chunks = vec![Chunk { tokens: 1, position: 0 }, Chunk { tokens: 3, position: 4 }];
        assert_eq!(shape, StepShape { decodes: 2, context: 17, chunks, sampled: 0 });
        assert_eq!((shape.tokens(), shape.mean_context()), (6, 9));
    }
}
