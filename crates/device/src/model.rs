//! The parts of a machine that do something, each in its file.

mod io_cpu;
mod m_cpu;
mod memory;
mod mmu;
mod pe_cpu;
mod pe_dma;
mod requester;

pub use io_cpu::IoCpu;
pub use m_cpu::MCpu;
pub use memory::{Burst, Channels, ChannelsSpec, Memory, RefreshSpec, RowsSpec};
pub use mmu::{Fault, Mmu, MmuCounts, Piece, Translation};
pub use pe_cpu::PeCpu;
pub use pe_dma::PeDma;
pub use requester::Requester;

use std::fmt;

use cubeyard_sim::{Component, Context, Delivery, Flit};

use crate::message::Message;

/// A part at a node. The frequent ones are told apart by an enum, which is faster than a call through
/// a pointer; a user's own goes into [`Part::Custom`].
pub enum Part {
    /// An HBM controller or an SRAM.
    Memory(Memory),
    /// Who makes requests: the host behind a PCIe endpoint.
    Requester(Requester),
    /// A PE's DMA engine with its MMU.
    PeDma(PeDma),
    /// The processor of an IO chiplet.
    IoCpu(IoCpu),
    /// The management processor of a cube.
    MCpu(MCpu),
    /// The processor of a PE.
    PeCpu(PeCpu),
    /// A component of somebody else.
    Custom(Box<dyn Component<Message = Message>>),
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(part) => part.fmt(f),
            Self::Requester(part) => part.fmt(f),
            Self::PeDma(part) => part.fmt(f),
            Self::IoCpu(part) => part.fmt(f),
            Self::MCpu(part) => part.fmt(f),
            Self::PeCpu(part) => part.fmt(f),
            Self::Custom(_) => f.write_str("Custom"),
        }
    }
}

/// Calls the same method of whichever part it is.
macro_rules! dispatch {
    ($self:expr, $part:ident => $call:expr) => {
        match $self {
            Part::Memory($part) => $call,
            Part::Requester($part) => $call,
            Part::PeDma($part) => $call,
            Part::IoCpu($part) => $call,
            Part::MCpu($part) => $call,
            Part::PeCpu($part) => $call,
            Part::Custom($part) => $call,
        }
    };
}

impl Component for Part {
    type Message = Message;

    fn receive(&mut self, delivery: Delivery<Message>, context: &mut Context<Message>) {
        dispatch!(self, part => part.receive(delivery, context));
    }

    fn wants_flits(&self) -> bool {
        dispatch!(self, part => part.wants_flits())
    }

    fn flit(&mut self, flit: Flit, message: &Message) {
        dispatch!(self, part => part.flit(flit, message));
    }

    fn wake(&mut self, token: u64, context: &mut Context<Message>) {
        dispatch!(self, part => part.wake(token, context));
    }

    fn call(&mut self, message: Message, context: &mut Context<Message>) {
        dispatch!(self, part => part.call(message, context));
    }

    fn waits_for(&self) -> Option<String> {
        dispatch!(self, part => part.waits_for())
    }
}
