//! Construction of a machine.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use cubeyard_sim::{Component, Engine, EngineConfig, NodeId};

use super::{Machine, parts};
use crate::failure::Failures;
use crate::log::{FlitLog, Log, Watch};
use crate::message::Message;
use crate::model::Part;
use crate::pe::Shared;
use crate::race::RaceDetector;
use crate::request::RequestError;
use crate::topology::Topology;
use crate::wiring::Wiring;

/// Settings of a machine. Only replaced components change simulated results.
#[derive(Debug)]
pub struct MachineBuilder {
    topology: Topology,
    config: EngineConfig,
    replaced: Vec<(NodeId, Part)>,
    data: bool,
    bursts: bool,
}

impl MachineBuilder {
    /// Creates the default settings for a machine of this topology.
    pub fn new(topology: Topology) -> Self {
        let config = EngineConfig { buffers: topology.spec().buffers, ..EngineConfig::default() };
        Self { topology, config, replaced: Vec::new(), data: false, bursts: false }
    }

    /// Sets the engine configuration; its buffers replace the buffers of the topology.
    #[must_use]
    pub fn config(self, config: EngineConfig) -> Self {
        Self { config, ..self }
    }

    /// Sets whether memory holds data. Without data, only time is simulated.
    #[must_use]
    pub fn data(self, data: bool) -> Self {
        Self { data, ..self }
    }

    /// Replaces the built-in component at a node by a custom one.
    pub fn replace(
        mut self,
        node: &str,
        component: impl Component<Message = Message> + 'static,
    ) -> Result<Self, RequestError> {
        let node = self.topology.find(node)?;
        self.replaced.push((node, Part::Custom(Box::new(component))));
        Ok(self)
    }

    /// Builds the machine, with a log of transfers.
    pub fn build(self) -> Machine {
        self.watched(Log::default())
    }

    /// Builds the machine, with a log of every flit and burst. Runs are slower, and the log grows with the traffic.
    pub fn build_with_flits(self) -> Machine<FlitLog> {
        Self { bursts: true, ..self }.watched(FlitLog::default())
    }

    /// Builds the machine, with a custom log.
    pub fn watched<W: Watch>(self, watch: W) -> Machine<W> {
        let Self { topology, config, replaced, data, bursts } = self;
        let network = parts::network(&topology);
        let shared = Rc::new(Shared {
            wiring: Wiring::new(topology),
            failures: Failures::default(),
            notices: RefCell::default(),
            races: RaceDetector::new(data),
            ops: RefCell::default(),
            mail: Cell::default(),
        });
        let parts = parts::parts(&shared, replaced).map(|(node, mut part)| {
            if let Part::Memory(memory) = &mut part {
                if data {
                    memory.keep_contents();
                }
                if bursts {
                    memory.keep_bursts();
                }
            }
            (node, part)
        });
        let engine = Engine::observed(network, parts, config, watch);
        let (requests, regions) = (BTreeMap::new(), BTreeMap::new());
        let dealt = Vec::new();
        Machine { shared, engine, made: 0, requests, last_mapping: None, regions, dealt }
    }
}
