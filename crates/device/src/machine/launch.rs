//! Launches: the way of each command, and the one instant at which all PEs start.

use std::sync::{Arc, OnceLock};

use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_sim::{NodeId, Route, Span, Time};

use super::Machine;
use crate::log::Watch;
use crate::message::{Launch, LaunchCube, LaunchPe, Message, RequestId};
use crate::model::Part;
use crate::request::{Outcome, PeRef, RequestError};

impl<W: Watch> Machine<W> {
    /// The launch of a request, with a task that starts its PEs.
    pub(super) fn launch(
        &mut self,
        request: RequestId,
        kernel: &str,
        sip: SipId,
        cubes: &[CubeId],
        pes: &[PeId],
        work: Span,
    ) -> Result<Arc<Launch>, RequestError> {
        self.check_launch(sip, cubes, pes)?;
        let endpoint = self.topology.endpoint(sip);
        let io_cpu = self.topology.io_cpu(sip);
        let (to_io_cpu, from_io_cpu) = self.routes(endpoint, io_cpu)?;
        let cubes: Result<Vec<_>, _> =
            cubes.iter().map(|&cube| self.launch_cube(io_cpu, sip, cube, pes)).collect();
        let cubes = cubes?;
        let lead = cubes.iter().map(|cube| self.lead(cube)).max().unwrap_or_default();
        let done = self.signal();
        let (kernel, start) = (kernel.to_owned(), OnceLock::new());
        let launch = Arc::new(Launch {
            request,
            kernel,
            to_io_cpu,
            from_io_cpu,
            cubes,
            lead,
            start,
            work,
            done,
        });
        self.start_together(&launch);
        Ok(launch)
    }

    fn launch_cube(
        &mut self,
        io_cpu: NodeId,
        sip: SipId,
        cube: CubeId,
        pes: &[PeId],
    ) -> Result<LaunchCube, RequestError> {
        let m_cpu = self.topology.m_cpu(sip, cube);
        let (to, back) = self.routes(io_cpu, m_cpu)?;
        let pe = |&pe: &PeId| -> Result<LaunchPe, RequestError> {
            let node = self.topology.pe_cpu(sip, cube, pe);
            let (to, back) = self.routes(m_cpu, node)?;
            let armed = self.engine.tasks().signal(format!("{sip}.{cube}.{pe}"), None);
            Ok(LaunchPe { node, to, back, armed })
        };
        let pes: Result<Vec<_>, _> = pes.iter().map(pe).collect();
        Ok(LaunchCube { to, back, pes: pes? })
    }

    /// How long the slowest command of a cube takes from `IO_CPU`, if nothing is in its way.
    fn lead(&self, cube: &LaunchCube) -> Span {
        let to_pe = cube.pes.iter().map(|pe| self.flight(&pe.to)).max().unwrap_or_default();
        self.flight(&cube.to) + to_pe
    }

    /// How long a message without payload takes: the wires, and the overhead of each node it comes to.
    fn flight(&self, route: &Route) -> Span {
        let network = self.network();
        let hop = |link: &cubeyard_sim::LinkId| {
            let link = network.link(*link);
            let overhead = network.nodes()[link.to.index()].overhead;
            link.propagation.max(Span::from_ps(1)) + overhead
        };
        route.iter().map(hop).sum()
    }

    /// Starts all PEs of a launch at one instant: when `IO_CPU` said, or when the last has its command
    /// if traffic held that up for longer.
    fn start_together(&mut self, launch: &Arc<Launch>) {
        let launch = Arc::clone(launch);
        let name = format!("launch {} of {}", launch.request, launch.kernel);
        let nodes = launch.cubes.iter().flat_map(|cube| &cube.pes).map(|pe| pe.node).collect();
        self.launches.insert(launch.request, nodes);
        self.engine.spawn(name, |tasks| async move {
            for pe in launch.cubes.iter().flat_map(|cube| &cube.pes) {
                tasks.wait(pe.armed).await;
            }
            let said = *launch.start.get().expect("said before a command left");
            let start = said.max(tasks.now());
            for pe in launch.cubes.iter().flat_map(|cube| &cube.pes) {
                tasks.call(pe.node, Message::Start(launch.request, start));
            }
        });
    }

    /// What there is to say of a launch that is done.
    pub(super) fn ran(&self, request: RequestId) -> Outcome {
        let nodes = &self.launches[&request];
        let started = nodes.iter().filter_map(|&node| match self.engine.component(node)? {
            Part::PeCpu(cpu) => cpu.started(request),
            _ => None,
        });
        Outcome::Ran { started: started.max().unwrap_or(Time::ZERO), pes: nodes.len() }
    }

    pub(super) fn check_cube(&self, sip: SipId, cube: CubeId) -> Result<(), RequestError> {
        let spec = self.topology.spec();
        if sip.number() < spec.sips.count && cube.number() < spec.cube_count() {
            return Ok(());
        }
        Err(RequestError::NoSuchPart { what: format!("{sip}.{cube}") })
    }

    pub(super) fn check_pe(&self, at: PeRef) -> Result<(), RequestError> {
        self.check_cube(at.sip, at.cube)?;
        if at.pe.number() < self.topology.spec().pe_count() {
            return Ok(());
        }
        Err(RequestError::NoSuchPart { what: at.to_string() })
    }

    fn check_launch(&self, sip: SipId, cubes: &[CubeId], pes: &[PeId]) -> Result<(), RequestError> {
        if cubes.is_empty() || has_twice(cubes) {
            return Err(RequestError::Launch { what: "cubes" });
        }
        if pes.is_empty() || has_twice(pes) {
            return Err(RequestError::Launch { what: "PEs" });
        }
        for &cube in cubes {
            for &pe in pes {
                self.check_pe(PeRef { sip, cube, pe })?;
            }
        }
        Ok(())
    }
}

fn has_twice<T: Ord + Copy>(items: &[T]) -> bool {
    let mut sorted = items.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}
