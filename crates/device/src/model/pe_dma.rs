//! A PE's DMA engine, with its MMU.
//!
//! An access to virtual addresses is translated when it is made, and becomes as many accesses as it has
//! pieces in different places. An address that is not mapped is taken as a physical one, or is an error.
//! Mappings come and go with commands, over the same wire as data.

use std::collections::BTreeMap;
use std::rc::Rc;

use cubeyard_memory::address::PhysAddr;
use cubeyard_sim::{Component, Context, Delivery, SignalId, Span};

use super::io_cpu::send;
use super::{Mmu, Requester};
use crate::message::{Access, Body, Command, Failure, Message, RequestId, Slice, VirtualAccess};
use crate::wiring::Wiring;

/// `PE_DMA` and `PE_MMU`.
#[derive(Clone, Debug)]
pub struct PeDma {
    requester: Requester,
    mmu: Mmu,
    wiring: Rc<Wiring>,
    /// The pieces of each access that are not done.
    pieces: BTreeMap<RequestId, (usize, SignalId)>,
}

impl PeDma {
    /// An engine at a node with this overhead.
    pub fn new(overhead: Span, mmu: Mmu, wiring: Rc<Wiring>) -> Self {
        Self { requester: Requester::new(overhead), mmu, wiring, pieces: BTreeMap::new() }
    }

    /// Its MMU.
    pub fn mmu(&self) -> &Mmu {
        &self.mmu
    }

    fn access(&mut self, access: &VirtualAccess, context: &mut Context<Message>) {
        let (pieces, span) = match self.mmu.translate(access.address, access.bytes) {
            Ok(translation) => (translation.pieces, translation.span),
            Err(fault) if self.mmu.is_strict() => {
                let what = format!("virtual address {:#x} is not mapped", fault.address);
                return self.fail(access, what, context);
            }
            Err(fault) => match PhysAddr::from_bits(access.address) {
                Ok(address) => (vec![(address, access.bytes)], fault.span),
                Err(error) => {
                    let what = format!(
                        "{:#x} is not mapped, and as a physical address: {error}",
                        fault.address
                    );
                    return self.fail(access, what, context);
                }
            },
        };
        match self.accesses(access, &pieces, context) {
            Ok(accesses) => {
                self.pieces.insert(access.request, (accesses.len(), access.done));
                for access in accesses {
                    self.requester.access(access, span, context);
                }
            }
            Err(what) => self.fail(access, what, context),
        }
    }

    /// The accesses that a translated one becomes.
    fn accesses(
        &self,
        whole: &VirtualAccess,
        pieces: &[(PhysAddr, u64)],
        context: &Context<Message>,
    ) -> Result<Vec<Access>, String> {
        let mut offset = 0;
        let mut accesses = Vec::with_capacity(pieces.len());
        for (part, &(address, bytes)) in (0..).zip(pieces) {
            let memory = self.wiring.memory(address, bytes).map_err(|error| error.to_string())?;
            let (there, back) =
                self.wiring.routes(context.node(), memory).map_err(|error| error.to_string())?;
            let data = whole.data.clone().map(|buffer| Slice { buffer, offset });
            accesses.push(Access {
                request: whole.request,
                part,
                direction: whole.direction,
                address: address.sub_offset().get(),
                bytes,
                there,
                back: Some(back),
                data,
                done: whole.done,
            });
            offset += usize::try_from(bytes).map_err(|error| error.to_string())?;
        }
        Ok(accesses)
    }

    fn fail(&self, access: &VirtualAccess, what: String, context: &mut Context<Message>) {
        self.wiring.fail(access.request, Failure { origin: context.node(), what });
        context.raise(access.done);
    }

    fn command(&mut self, command: &Command, context: &Context<Message>) {
        let done = match &command.body {
            Body::Map(mappings) => self.mmu.map(mappings),
            Body::Unmap(mappings) => self.mmu.unmap(mappings),
            Body::Launch(_) => unreachable!("launches go to PE_CPU"),
        };
        if let Err(error) = done {
            let failure = Failure { origin: context.node(), what: error.to_string() };
            self.wiring.fail(command.request, failure);
        }
    }
}

impl Component for PeDma {
    type Message = Message;

    fn call(&mut self, message: Message, context: &mut Context<Message>) {
        match message {
            Message::IssueVirtual(access) => self.access(&access, context),
            other => self.requester.call(other, context),
        }
    }

    fn receive(&mut self, delivery: Delivery<Message>, context: &mut Context<Message>) {
        match delivery.message {
            Message::CommandPe(command, cube, pe) => {
                self.command(&command, context);
                let route = command.cubes[cube].pes[pe].back.clone();
                send(context, &route, 0, Message::PeDone(command, cube));
            }
            Message::Answer(Access { request, done, .. }) => {
                self.requester.answered();
                let Some((left, done)) = self.pieces.get_mut(&request).map(|(left, done)| {
                    *left -= 1;
                    (*left, *done)
                }) else {
                    return context.raise(done);
                };
                if left == 0 {
                    self.pieces.remove(&request);
                    context.raise(done);
                }
            }
            other => unreachable!("PE_DMA is sent answers and mappings: {other:?}"),
        }
    }

    fn waits_for(&self) -> Option<String> {
        self.requester.waits_for()
    }
}
