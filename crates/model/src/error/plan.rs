//! Errors of plans.

use thiserror::Error;

/// Reason why a plan cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The text is not a list of keys with numbers. Write one.
    #[error("plan: expected auto, or keys with numbers such as tp=2,pp=4; found `{found}`")]
    Text {
        /// Part of the text that could not be read.
        found: String,
    },
    /// A plan has no such key. Use one of the four.
    #[error("plan: {key}: expected one of tp, pp, dp, ep; the nearest is {nearest}")]
    Key {
        /// Key that was given.
        key: String,
        /// Most similar known key.
        nearest: String,
    },
    /// A key occurs twice. Remove one of them.
    #[error("plan: {key} is given twice: expected each key at most once")]
    Twice {
        /// Key that was given twice.
        key: &'static str,
    },
    /// The value of a key is out of range. Change it.
    #[error("plan: {key}={value}: expected a whole number from 1 to {most}")]
    Number {
        /// Key of the value.
        key: &'static str,
        /// Value that was given.
        value: String,
        /// Maximum value of the key.
        most: u64,
    },
    /// The plan needs more SIPs than there are. Use a smaller plan, or more SIPs.
    #[error("plan: {plan}: expected tp × pp × dp to be at most the {sips} SIPs, found {used}")]
    Sips {
        /// Plan that was given.
        plan: String,
        /// Number of SIPs of the plan.
        used: u64,
        /// Number of SIPs of all machines.
        sips: u64,
    },
    /// The SIPs that `tp` gets by default are not a whole number. State `tp`, or change `pp` or `dp`.
    #[error(
        "plan: pp={pp},dp={dp} without tp: expected pp × dp to divide the {sips} SIPs, found {}",
        pp * dp
    )]
    Undivided {
        /// Number of stages.
        pp: u64,
        /// Number of replicas.
        dp: u64,
        /// Number of SIPs of all machines.
        sips: u64,
    },
    /// A group would span machines. Choose a divisor of the SIPs of a machine.
    #[error(
        "plan: tp={tp}: expected a divisor of the {sips} SIPs of a node, since a group is in one node"
    )]
    Group {
        /// Number of SIPs of a group.
        tp: u64,
        /// Number of SIPs of a machine.
        sips: u64,
    },
    /// The model has layers of several kinds, whose order over stages is not known. Use one stage.
    #[error("pp={pp}: expected 1, since {model} has layers of several kinds")]
    Kinds {
        /// Number of stages.
        pp: u64,
        /// Name of the model.
        model: String,
    },
    /// There are more stages than layers. Use fewer stages.
    #[error("plan: pp={pp}: expected at most {layers} stages, the layers of the model")]
    Stages {
        /// Number of stages.
        pp: u64,
        /// Number of layers of the model.
        layers: u64,
    },
    /// There are more replicas than sequences. Use fewer replicas, or a larger batch.
    #[error("plan: dp={dp}: expected at most {batch} replicas, one for each sequence of the batch")]
    Replicas {
        /// Number of replicas.
        dp: u64,
        /// Number of sequences.
        batch: u64,
    },
    /// There are more micro-batches than sequences of a replica. Use fewer, or a larger batch.
    #[error("microbatches={microbatches}: expected 1 to {share}, the sequences of a replica")]
    Microbatches {
        /// Number of micro-batches.
        microbatches: u64,
        /// Number of sequences of the largest replica.
        share: u64,
    },
    /// The experts cannot be divided over this number of places. Use one of `expected`.
    #[error("plan: ep={ep}: expected {expected}")]
    Experts {
        /// Number of places of experts.
        ep: u64,
        /// Numbers of places that are possible.
        expected: String,
    },
    /// A network is not valid. Change the value.
    #[error("network: {key}={value}: expected {expected}")]
    Network {
        /// Key of the value.
        key: String,
        /// Value that was given.
        value: String,
        /// Values that the key can have.
        expected: &'static str,
    },
    /// No plan fits in memory. Use a larger machine, a smaller batch or a shorter context.
    #[error(
        "no plan of {sips} SIPs fits: {plan} needs least, {needed} bytes of a PE with {capacity}"
    )]
    NoneFits {
        /// Number of SIPs of all machines.
        sips: u64,
        /// Plan that needs the least memory of a PE.
        plan: String,
        /// Bytes of weights and caches of its fullest PE.
        needed: u64,
        /// Memory capacity of a PE, in bytes.
        capacity: u64,
    },
}
