//! Time of one step of a language model on a machine: its layers, composed of kernels and collectives.
//!
//! Internal: programs use the crate `cubeyard`.
//!
//! A [`ModelSpec`] describes the model, and a [`Cut`] its distribution over the machine. [`measure`](fn@measure)
//! allocates the whole model on a machine, runs one step in a single timeline with one of its identical layers (or one of
//! each kind), and reports the time of the step, part by part.
//!
//! | module | contents |
//! |---|---|
//! | [`spec`] | dimensions of models, by name or from a file |
//! | [`hf`] | configurations of Hugging Face |
//! | [`cut`] | distribution of a model and its tokens over SIPs, cubes and PEs |
//! | [`plan`] | division of SIPs into groups, stages and replicas, and the search for the fastest |
//! | [`report`] | times of a step, and lower bounds on them |
//! | [`training`] | closed forms of training: pipelines, messages and memory |

mod bound;
pub mod cut;
mod driver;
mod error;
pub mod hf;
mod kernels;
mod layout;
mod measure;
mod memory;
mod part;
mod placed;
pub mod plan;
pub mod report;
pub mod spec;
mod tensors;
mod timeline;
pub mod training;
mod wiring;

pub use cut::{Cut, Phase, Workload};
pub use driver::{Driver, PartRun};
pub use error::ModelError;
pub use hf::HfModel;
pub use layout::{Held, Origin};
pub use measure::{MeasureConfig, measure};
pub use part::StepPart;
pub use plan::{Plan, PlanConfig, PlanError, PlanReport};
pub use report::ModelReport;
pub use spec::ModelSpec;
pub use tensors::{Contents, KindTensors, SipTensors, Tensors};
