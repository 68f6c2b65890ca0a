//! How fast kernels run in the simulator.
fn main() {}
