//! What a step of a language model takes on a machine: its layers, composed from kernels and collectives.
//!
//! A [`ModelSpec`] says what the model is, a [`Cut`] who holds and computes what of it. [`measure`](fn@measure)
//! allocates all of it on a machine, runs one step in one timeline with one of its layers, which are all alike, and
//! says what the step takes, part by part.
//!
//! | module | what is there |
//! |---|---|
//! | [`spec`] | models, by name |
//! | [`cut`] | how a model and its tokens are cut over SIPs, cubes and PEs |
//! | [`report`] | what a step takes, and what it must take |

mod bound;
pub mod cut;
mod driver;
mod error;
mod kernels;
mod measure;
pub mod report;
pub mod spec;
mod tensors;
mod timeline;
mod wiring;

pub use cut::{Cut, Phase, Work};
pub use driver::{Driver, Part, Ran};
pub use error::ModelError;
pub use measure::{MeasureConfig, measure};
pub use report::ModelReport;
pub use spec::ModelSpec;
pub use tensors::{Contents, Held, SipTensors, Tensors};
