//! Errors of the pickle reader.

use thiserror::Error;

use crate::MemoryLimit;

/// Reason and position of a rejected pickle. No part of the pickle can be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("byte {offset}, {opcode}: {problem}")]
pub struct PickleError {
    /// Byte offset of the opcode.
    pub offset: usize,
    /// Python's name for the opcode.
    pub opcode: &'static str,
    /// The fault of the opcode.
    pub problem: Problem,
}

/// Fault of an opcode in a pickle.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// The byte is not an opcode, so the input is not a pickle or is damaged.
    #[error("expected an opcode, found {found:#04x}")]
    Unknown {
        /// The byte in place of an opcode.
        found: u8,
    },
    /// The opcode creates something other than plain data. Python can run arbitrary code when it loads such a
    /// pickle.
    #[error("expected plain data, found an opcode that creates {makes}")]
    Refused {
        /// Kind of object that the opcode creates.
        makes: &'static str,
    },
    /// The protocol is newer than the protocol of Python 3.14.
    #[error("expected protocol 0 to 5, found {found}")]
    Protocol {
        /// Number of the protocol.
        found: u8,
    },
    /// The input ends within the opcode's argument.
    #[error("expected {needed} more bytes, found {left}")]
    Truncated {
        /// Length of the argument, in bytes.
        needed: u64,
        /// Number of bytes left in the input.
        left: usize,
    },
    /// The input ends within the line that is the opcode's argument.
    #[error("expected a line, found no line end")]
    EndlessLine,
    /// The opcode takes a value from an empty stack.
    #[error("expected {expected} on the stack, found nothing")]
    Nothing {
        /// The value that the opcode takes.
        expected: &'static str,
    },
    /// The opcode takes a value of another kind from the stack.
    #[error("expected {expected} on the stack, found {found}")]
    Kind {
        /// The value that the opcode takes.
        expected: &'static str,
        /// Kind of the value on the stack.
        found: &'static str,
    },
    /// A dictionary gets a key without a value.
    #[error("expected keys with values, found {count} items")]
    Odd {
        /// Number of keys and values together.
        count: usize,
    },
    /// The opcode reads a memo entry that was never written.
    #[error("expected a value in memo entry {index}, found none")]
    NotMemoized {
        /// Index of the memo entry.
        index: u64,
    },
    /// The opcode writes a memo entry further ahead than any pickle written by Python.
    #[error("expected a memo index of at most {largest}, found {index}")]
    Memo {
        /// Index of the memo entry.
        index: u64,
        /// Largest index that is possible at this offset.
        largest: usize,
    },
    /// The argument is malformed.
    #[error("expected {expected}, found `{found}`")]
    Literal {
        /// The argument that the opcode takes.
        expected: &'static str,
        /// Beginning of the argument found.
        found: String,
    },
    /// An integer has more than 64 bits.
    #[error("expected an integer of at most 64 bits, found {bytes} bytes")]
    Integer {
        /// Length of the integer's argument, in bytes.
        bytes: usize,
    },
    /// The input and the values read from it need more memory than the limit.
    #[error(transparent)]
    Memory(#[from] MemoryLimit),
    /// The values need more memory than any pickle of this length that Python writes.
    #[error(
        "expected data that needs at most {factor} bytes of memory per byte of the pickle, found more"
    )]
    Inflated {
        /// Maximum memory per byte of input, in bytes.
        factor: u64,
    },
    /// The number of values exceeds 32 bits.
    #[error("expected fewer than 2³² values, found more")]
    TooMany,
    /// Containers nest more deeply than the limit.
    #[error("expected at most {limit} nested containers, found more")]
    TooDeep {
        /// Maximum nesting depth.
        limit: u16,
    },
    /// A container contains itself.
    #[error("expected plain data, found a container that contains itself")]
    Cycle,
    /// The pickle stops with no value, or more than one, on the stack.
    #[error("expected one value on the stack, found {count}")]
    Leftover {
        /// Number of values on the stack.
        count: usize,
    },
    /// Bytes follow the pickle.
    #[error("expected the end of the input, found {count} more bytes")]
    Trailing {
        /// Number of bytes that follow.
        count: usize,
    },
}
