//! Integration tests of the crate, in one binary.

mod readers;
