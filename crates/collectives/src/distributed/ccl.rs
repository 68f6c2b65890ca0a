//! `ccl.yaml`: the choice of algorithms of a process group, and the settings of its channels.
//!
//! ```
//! use cubeyard_device::topology::Topology;
//! use cubeyard_collectives::collective::{Operation, ReduceOp};
//! use cubeyard_collectives::distributed::CclConfig;
//! use cubeyard_runtime::dtype::DType;
//!
//! let machine = Topology::embedded();
//! let all_reduce = Operation::AllReduce(ReduceOp::Sum);
//! let forced = CclConfig::read("mine.yaml", "defaults: {algorithm: ring, n_slots: 8}\n")?;
//! let resolved = forced.resolve(&machine, all_reduce, DType::F32, 1 << 20)?;
//! assert_eq!(resolved.algorithm.name(), "ring");
//! assert_eq!(resolved.config.ring.slots, 8);
//!
//! let error = CclConfig::read("mine.yaml", "defaults:\n  algorithm: rings\n").unwrap_err();
//! assert!(error.to_string().starts_with("mine.yaml:2: defaults.algorithm: expected one of auto, "));
//! assert!(error.to_string().ends_with("found rings; the nearest is `ring`"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod choices;
mod cost;
mod fastest;
mod read;

use std::ops::RangeInclusive;
use std::rc::Rc;

use cubeyard_device::topology::{SipTopology, Topology};
use cubeyard_runtime::dtype::DType;
use cubeyard_sim::Span;
use cubeyard_yaml::{Document, InputError, nearest};

use super::config::GroupConfig;
use super::error::DistError;
use super::group::check_root;
use super::rank_map::RankMap;
use crate::collective::{Algorithm, Operation};

pub use cost::Cost;

/// The embedded file, with the meaning of every key.
pub const DEFAULT: &str = include_str!("ccl.yaml");

/// Name of the embedded file in errors.
const DEFAULT_NAME: &str = "the default ccl.yaml";

/// Function of a front that finds an algorithm by the name of its module.
pub type FindModule<'a> = &'a dyn Fn(&str) -> Option<Result<Rc<dyn Algorithm>, String>>;

/// The choice of algorithms, and their groups' settings.
#[derive(Clone, Debug)]
pub struct CclConfig {
    /// Name of the one algorithm to use; without it, the fastest is chosen.
    pub forced: Option<String>,
    /// Settings of groups, unless an algorithm overrides them.
    pub defaults: GroupConfig,
    /// Algorithms in the order of the file.
    pub algorithms: Vec<CclAlgorithm>,
}

/// An algorithm of the file.
#[derive(Clone, Debug)]
pub struct CclAlgorithm {
    /// Name of the algorithm in the file.
    pub name: String,
    /// The registered algorithm, or an algorithm of a front.
    pub module: Rc<dyn Algorithm>,
    /// Whether the algorithm may be chosen.
    pub enabled: bool,
    /// Settings of its groups.
    pub config: GroupConfig,
    /// Sizes for which the algorithm may be chosen, in bytes.
    pub bytes: RangeInclusive<u64>,
    /// Numbers of ranks for which the algorithm may be chosen.
    pub world: RangeInclusive<usize>,
    /// SIP topologies for which the algorithm may be chosen.
    pub sips: Vec<SipTopology>,
}

/// A chosen algorithm with the settings of its group.
#[derive(Debug)]
pub struct Resolved {
    /// Name of the algorithm in the file.
    pub name: String,
    /// The registered algorithm.
    pub algorithm: Rc<dyn Algorithm>,
    /// The group's settings, with its world size if one was given.
    pub config: GroupConfig,
    /// Estimated duration, if known.
    pub estimate: Option<Span>,
}

impl CclConfig {
    /// Returns the settings of the embedded file.
    pub fn embedded() -> Self {
        Self::read(DEFAULT_NAME, "").expect("the default ccl.yaml is tested")
    }

    /// Reads `text` as an overlay of the embedded file. Errors use `name` as the name of the file.
    pub fn read(name: &str, text: &str) -> Result<Self, InputError> {
        Self::read_with(name, text, &|_| None)
    }

    /// Reads a file as [`read`](Self::read) does, for a front with algorithms of its own.
    ///
    /// `find` is called with each `module` that is not registered. It returns the algorithm, `None` for an unknown
    /// name, or the reason why the algorithm cannot be used.
    pub fn read_with(name: &str, text: &str, find: FindModule<'_>) -> Result<Self, InputError> {
        // The embedded file is valid, so an error in a default comes from the user's file.
        let default_name = format!("{name} over {DEFAULT_NAME}");
        let document = Document::overlaid(&default_name, DEFAULT, name, text)?;
        read::config(&document.root(), find)
    }

    /// Reads a file as [`read`](Self::read) does, from bytes that may not be UTF-8.
    pub fn read_bytes(name: &str, bytes: &[u8]) -> Result<Self, InputError> {
        Self::read(name, cubeyard_yaml::text(name, bytes)?)
    }

    /// Returns the algorithm and group settings for an operation on elements of a type: the forced algorithm, or the
    /// fastest algorithm that supports the operation.
    ///
    /// Algorithms whose estimates are close to the shortest estimate are simulated, each alone on a machine like this
    /// one, with tensors spread evenly over the PEs. The others are left out. If a close algorithm needs more than
    /// 5,000 channels, the estimates decide. Algorithms without an estimate come last.
    pub fn resolve(
        &self,
        topology: &Topology,
        operation: Operation,
        dtype: DType,
        bytes: u64,
    ) -> Result<Resolved, DistError> {
        if let Some(name) = &self.forced {
            return self.named(name)?.resolved(topology, bytes, operation);
        }
        let (mut all, mut whys) = (Vec::new(), Vec::new());
        for algorithm in self.algorithms.iter().filter(|algorithm| algorithm.enabled) {
            match algorithm.chosen(topology, bytes, operation) {
                Ok(found) => all.push(found),
                Err(DistError::Refused { why, .. }) => {
                    whys.push(format!("{}: {why}", algorithm.name));
                }
                Err(error) => return Err(error),
            }
        }
        let none = || DistError::Refused { algorithm: "auto", why: whys.join("; ") };
        fastest::fastest(topology, all, (operation, dtype, bytes))?.ok_or_else(none)
    }

    /// Returns an algorithm of the file by its name.
    pub fn named(&self, name: &str) -> Result<&CclAlgorithm, DistError> {
        let names = || self.algorithms.iter().map(|algorithm| algorithm.name.as_str());
        let found = self.algorithms.iter().find(|algorithm| algorithm.name == name);
        found.ok_or_else(|| DistError::Algorithm {
            name: name.to_owned(),
            known: names().collect::<Vec<_>>().join(", "),
            nearest: nearest(name, names()).map(ToOwned::to_owned),
        })
    }

    /// Changes the settings of all groups.
    pub fn each(&mut self, change: impl Fn(&mut GroupConfig)) {
        change(&mut self.defaults);
        self.algorithms.iter_mut().for_each(|algorithm| change(&mut algorithm.config));
    }
}

impl Resolved {
    /// Returns the number of channels between the PEs of all ranks.
    pub fn channels(&self, topology: &Topology) -> Result<usize, DistError> {
        let map = RankMap::new(topology, &self.config)?;
        Ok(self.algorithm.wires(map.world()).len() * map.positions())
    }
}

impl CclAlgorithm {
    /// Returns the registered algorithm.
    pub fn algorithm(&self) -> Box<dyn Algorithm> {
        Box::new(Rc::clone(&self.module))
    }

    /// Resolves this algorithm, if it supports an operation.
    pub fn resolved(
        &self,
        topology: &Topology,
        bytes: u64,
        operation: Operation,
    ) -> Result<Resolved, DistError> {
        let map = RankMap::new(topology, &self.config)?;
        check_root(operation, map.world())?;
        let algorithm = Rc::clone(&self.module);
        if let Some(why) = algorithm.refuses(operation, map.world()) {
            return Err(DistError::Refused { algorithm: self.module.name(), why });
        }
        let estimate = self.cost(topology, operation)?.and_then(|cost| cost.span(bytes));
        Ok(Resolved { name: self.name.clone(), algorithm, config: self.config.clone(), estimate })
    }

    /// Resolves this algorithm, if it supports an operation and the file admits it.
    fn chosen(
        &self,
        topology: &Topology,
        bytes: u64,
        operation: Operation,
    ) -> Result<Resolved, DistError> {
        let ranks = RankMap::new(topology, &self.config)?.world().ranks;
        match self.excludes_size(bytes).or_else(|| self.excludes(topology, ranks)) {
            Some(why) => Err(DistError::Refused { algorithm: self.module.name(), why }),
            None => self.resolved(topology, bytes, operation),
        }
    }

    /// Returns an explanation if the file does not admit the algorithm for a size.
    fn excludes_size(&self, bytes: u64) -> Option<String> {
        let excluded = || format!("the file excludes this algorithm for {bytes} bytes");
        (!self.bytes.contains(&bytes)).then(excluded)
    }

    /// Returns an explanation if the file does not admit the algorithm for these ranks and SIPs.
    pub(super) fn excludes(&self, topology: &Topology, ranks: usize) -> Option<String> {
        if !self.world.contains(&ranks) {
            return Some(format!("the file excludes this algorithm for {ranks} ranks"));
        }
        let fits = self.sips.contains(&topology.spec().sips.topology);
        (!fits)
            .then(|| "the file excludes this algorithm for the topology of these SIPs".to_owned())
    }
}
