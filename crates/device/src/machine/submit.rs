//! Translation of requests into the messages that start them.

use std::cell::Cell;

use cubeyard_memory::address::PhysAddr;
use cubeyard_sim::{NodeId, SignalId};

use super::{Detail, Machine, Start};
use crate::log::Watch;
use crate::message::{
    Access, Buffer, Direction, Done, PeDmaMessage, RequestId, RequesterMessage, Slice,
    VirtualAccess,
};
use crate::pe::Dma;
use crate::request::{MemoryRange, Request, RequestError};

/// Access to physical memory by a node.
struct Physical {
    node: NodeId,
    direction: Direction,
    address: PhysAddr,
    bytes: u64,
    /// Whether the access is a write without acknowledgement.
    posted: bool,
}

impl<W: Watch> Machine<W> {
    pub(super) fn begin(
        &mut self,
        request: RequestId,
        body: &Request,
        buffer: Option<&Buffer>,
    ) -> Result<Start, RequestError> {
        let physical = match *body {
            Request::MemoryWrite(range) => self.host(&range, Direction::Write)?,
            Request::MemoryRead(range) => self.host(&range, Direction::Read)?,
            Request::PeDma { from, direction, address, bytes } => {
                self.check_pe(from)?;
                let node = self.topology().pe_dma(from);
                Physical { node, direction, address, bytes, posted: false }
            }
            Request::MCpuDma { sip, cube, direction, address, bytes } => {
                self.check_cube(sip, cube)?;
                let node = self.topology().m_cpu(sip, cube);
                Physical { node, direction, address, bytes, posted: false }
            }
            Request::VirtualDma { from, direction, address, bytes } => {
                self.check_pe(from)?;
                if bytes == 0 || address.checked_add(bytes).is_none() {
                    return Err(RequestError::Size { bytes });
                }
                let node = self.topology().pe_dma(from);
                let (data, signal) = (buffer.map(Slice::whole), self.signal());
                let dma = Dma { direction, address, bytes, rows: None };
                let access = VirtualAccess { request, dma, data, done: Done::Signal(signal) };
                let message = PeDmaMessage::Access(Box::new(access)).into();
                let detail = Detail::VirtualAccess;
                return Ok(Start { node, message, done: signal, detail });
            }
            Request::KernelLaunch { ref kernel, ref on, work } => {
                return self.launch(request, kernel, on, work);
            }
            Request::Mappings { ref on, ref mappings, remove } => {
                return self.mapping(request, on, mappings, remove);
            }
            Request::Connect { ref on, ref ports, remove } => {
                return self.ports(request, on, ports, remove);
            }
        };
        self.physical_access(request, &physical, buffer)
    }

    fn physical_access(
        &mut self,
        request: RequestId,
        physical: &Physical,
        buffer: Option<&Buffer>,
    ) -> Result<Start, RequestError> {
        let Physical { node, direction, address, bytes, posted } = *physical;
        let memory = self.shared.wiring.memory(address, bytes)?;
        let (there, back) = self.shared.wiring.routes(node, memory)?;
        let done = self.signal();
        let into = address.sub_offset().get();
        self.races(|races| races.host_access(memory, into, bytes, direction, request));
        let access = Access {
            request,
            direction,
            address: into,
            bytes,
            rows: None,
            there,
            back: (!posted).then_some(back),
            data: buffer.map(Slice::whole),
            written: Cell::default(),
            done: Done::Signal(done),
        };
        let detail = Detail::Access(Box::new(access.clone()));
        let message = RequesterMessage::Issue(Box::new(access)).into();
        Ok(Start { node, message, done, detail })
    }

    pub(super) fn signal(&self) -> SignalId {
        self.engine.tasks().signal(String::new(), None)
    }

    /// Returns the host's access to a range, after checking the range's PE. Writes are posted.
    fn host(&self, range: &MemoryRange, direction: Direction) -> Result<Physical, RequestError> {
        let MemoryRange { at, address, bytes } = *range;
        let holder = self.topology().node(self.topology().resolve(address)?);
        let place = holder.place;
        let right = place.sip == Some(at.sip)
            && place.cube == Some(at.cube)
            && place.pe.is_none_or(|pe| pe == at.pe);
        if !right {
            let (holder, said) = (holder.name.clone(), at.to_string());
            return Err(RequestError::Tag { address, holder, said });
        }
        let node = self.topology().endpoint_of(at.sip, at.cube);
        Ok(Physical { node, direction, address, bytes, posted: direction == Direction::Write })
    }
}
