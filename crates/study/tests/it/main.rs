//! Studies through the public interface.

mod bounds;
mod checked;
mod choices;
#[path = "../../../../testdata/long_tests.rs"]
mod long_tests;
mod model_all_reduce;
mod records;
