//! Why a pickle was refused.

use thiserror::Error;

use crate::MemoryLimit;

/// Why a pickle was refused, and where. No part of it can be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("byte {offset}, {opcode}: {problem}")]
pub struct PickleError {
    /// Where the opcode stands.
    pub offset: usize,
    /// Python's name for the opcode.
    pub opcode: &'static str,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with an opcode of a pickle.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// The byte is no opcode, so this is no pickle or a damaged one.
    #[error("expected an opcode, found {found:#04x}")]
    Unknown {
        /// The byte.
        found: u8,
    },
    /// The opcode makes something other than plain data. Such a pickle can run any code when Python
    /// loads it.
    #[error("expected plain data, found an opcode that makes {makes}")]
    Refused {
        /// What it makes.
        makes: &'static str,
    },
    /// The protocol came after Python 3.14.
    #[error("expected protocol 0 to 5, found {found}")]
    Protocol {
        /// Its number.
        found: u8,
    },
    /// The input ends within the opcode's argument.
    #[error("expected {needed} more bytes, found {left}")]
    Truncated {
        /// The bytes that the argument takes.
        needed: u64,
        /// The bytes that are left.
        left: usize,
    },
    /// The input ends within the line that is the opcode's argument.
    #[error("expected a line, found no end to it")]
    EndlessLine,
    /// The opcode takes something from the stack that is not there.
    #[error("expected {expected} on the stack, found nothing")]
    Nothing {
        /// What it takes.
        expected: &'static str,
    },
    /// The opcode takes something from the stack, and something else is there.
    #[error("expected {expected} on the stack, found {found}")]
    Kind {
        /// What it takes.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A dictionary gets a last key without a value.
    #[error("expected keys with values, found {count} items")]
    Odd {
        /// How many there are of both together.
        count: usize,
    },
    /// The opcode reads a place of the memo where nothing was put.
    #[error("expected something in place {index} of the memo, found nothing")]
    NotMemoized {
        /// Which place.
        index: u64,
    },
    /// The opcode writes a place of the memo that no honest pickle has reached by then.
    #[error("expected at most {largest} as the place in the memo, found {index}")]
    Memo {
        /// Which place.
        index: u64,
        /// The last one that can have been reached.
        largest: usize,
    },
    /// The argument is not what the opcode takes.
    #[error("expected {expected}, found `{found}`")]
    Literal {
        /// What it takes.
        expected: &'static str,
        /// The beginning of what is there.
        found: String,
    },
    /// An integer takes more than 64 bits.
    #[error("expected an integer of at most 64 bits, found {bytes} bytes")]
    Integer {
        /// The length of its argument.
        bytes: usize,
    },
    /// The input and what is made of it take more memory than the limit.
    #[error(transparent)]
    Memory(#[from] MemoryLimit),
    /// What is made of the input takes more memory than that of any honest pickle of its length.
    #[error(
        "expected data that takes at most {factor} bytes of memory for each byte of a pickle, found \
         more"
    )]
    Inflated {
        /// How many bytes of memory a byte of input may take.
        factor: u64,
    },
    /// There are more values than 32 bits can number.
    #[error("expected fewer than 2³² values, found more")]
    TooMany,
    /// Containers lie deeper within each other than the limit.
    #[error("expected at most {limit} containers within each other, found more")]
    TooDeep {
        /// The limit.
        limit: u16,
    },
    /// A container contains itself.
    #[error("expected plain data, found a container that contains itself")]
    Cycle,
    /// The pickle stops with other than one value on the stack.
    #[error("expected one value on the stack, found {count}")]
    Leftover {
        /// How many there are.
        count: usize,
    },
    /// Something follows the pickle.
    #[error("expected the end of the input, found {count} more bytes")]
    Trailing {
        /// How many bytes.
        count: usize,
    },
}
