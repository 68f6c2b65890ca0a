//! Active parts of a machine, one file each.

mod io_cpu;
mod m_cpu;
mod memory;
mod mmu;
mod pe_cpu;
mod pe_dma;
mod requester;

pub(crate) use io_cpu::IoCpu;
pub(crate) use m_cpu::MCpu;
pub use memory::{Burst, ChannelsSpec, Memory, MemoryChannels, RefreshSpec, RowsSpec};
pub use mmu::{Fault, Mmu, MmuCounts, Piece, Translation};
pub(crate) use pe_cpu::PeCpu;
pub(crate) use pe_dma::PeDma;
pub use requester::Requester;

use std::fmt;

use cubeyard_sim::{Component, Context, Delivery, Flit};

use crate::message::Message;

/// Active part at a node. Frequent parts are variants, which is faster than a call through a pointer; custom components
/// use [`Part::Custom`].
pub enum Part {
    /// An HBM controller or an SRAM.
    Memory(Memory),
    /// The PCIe endpoint, which makes the accesses of the host.
    Requester(Requester),
    /// A PE's DMA engine with its MMU.
    PeDma(PeDma),
    /// The processor of an IO chiplet.
    IoCpu(IoCpu),
    /// The management processor of a cube.
    MCpu(MCpu),
    /// The processor of a PE.
    PeCpu(PeCpu),
    /// A custom component.
    Custom(Box<dyn Component<Message = Message>>),
}

impl Part {
    /// Passes a message to the part with the matching type, whether the message was sent or called.
    fn handle(&mut self, message: Message, context: &mut Context<Message>) {
        match (self, message) {
            (Self::Memory(part), Message::Memory(access)) => part.handle(access, context),
            (Self::Requester(part), Message::Requester(message)) => part.handle(message, context),
            (Self::Requester(part), Message::Host(message)) => {
                part.handle_command(message, context);
            }
            (Self::PeDma(part), Message::PeDma(message)) => part.handle(message, context),
            (Self::PeDma(part), Message::Requester(message)) => {
                part.handle_access(message, context);
            }
            (Self::IoCpu(part), Message::IoCpu(message)) => part.handle(message, context),
            (Self::MCpu(part), Message::MCpu(message)) => part.handle(message, context),
            (Self::MCpu(part), Message::Requester(message)) => part.dma.handle(message, context),
            (Self::PeCpu(part), Message::PeCpu(message)) => part.handle(message, context),
            (Self::Custom(part), message) => part.call(message, context),
            (part, message) => panic!("{part:?} is not the receiver of {message:?}"),
        }
    }
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

impl Component for Part {
    type Message = Message;

    fn receive(&mut self, delivery: Delivery<Message>, context: &mut Context<Message>) {
        match self {
            Self::Custom(part) => part.receive(delivery, context),
            part => part.handle(delivery.message, context),
        }
    }

    fn wants_flits(&self) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::Custom(part) => part.wants_flits(),
            _ => false,
        }
    }

    fn flit(&mut self, flit: Flit, message: &Message) {
        match (self, message) {
            (Self::Memory(part), Message::Memory(access)) => part.flit(flit, access),
            (Self::Custom(part), message) => part.flit(flit, message),
            _ => {}
        }
    }

    fn wake(&mut self, token: u64, context: &mut Context<Message>) {
        match self {
            Self::Memory(part) => part.wake(token, context),
            Self::PeCpu(part) => part.wake(token, context),
            Self::Custom(part) => part.wake(token, context),
            // The other parts set no alarms.
            _ => {}
        }
    }

    fn call(&mut self, message: Message, context: &mut Context<Message>) {
        self.handle(message, context);
    }

    fn waits_for(&self) -> Option<String> {
        match self {
            Self::Memory(_) => None,
            Self::Requester(part) => part.waits_for(),
            Self::PeDma(part) => part.waits_for(),
            Self::IoCpu(part) => part.waits_for(),
            Self::MCpu(part) => part.waits_for(),
            Self::PeCpu(part) => part.waits_for(),
            Self::Custom(part) => part.waits_for(),
        }
    }
}
