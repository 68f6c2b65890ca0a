//! The process group: `torch.distributed` with the backend `ahbm`.
//!
//! A [`Group`] has ranks that are wired to each other, and does collectives among them.

pub mod ccl;
mod error;
mod group;
mod places;
pub mod sweep;

pub use ccl::CclConfig;
pub use error::DistError;
pub use group::{CollectiveReport, Group, GroupConfig, Ranks};
pub use places::Places;
