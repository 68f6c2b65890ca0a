//! The `cubeyard` command.
fn main() {}
