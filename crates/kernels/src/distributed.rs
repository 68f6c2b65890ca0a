//! The process group: `torch.distributed` with the backend `ahbm`.
//!
//! A [`Group`] has ranks that are wired to each other, and does collectives among them.

mod error;
mod group;

pub use error::DistError;
pub use group::{CollectiveReport, Group, GroupConfig, Ranks};
