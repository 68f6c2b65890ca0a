//! The management processor of a cube: distributes commands to PEs and collects their completions. It has its own DMA
//! engine.

use std::rc::Rc;

use cubeyard_sim::Context;

use super::Requester;
use super::io_cpu::{Open, send};
use crate::message::{
    CommandBody, CommandTarget, IoCpuMessage, MCpuMessage, Message, PeCpuMessage, PeDmaMessage,
};

/// Management processor of a cube, `M_CPU`. Each message pays the overhead of its node.
#[derive(Clone, Debug)]
pub struct MCpu {
    pes: Open,
    pub(super) dma: Requester,
}

impl MCpu {
    pub(crate) fn new(dma: Requester) -> Self {
        Self { pes: Open::default(), dma }
    }

    pub(super) fn handle(&mut self, message: MCpuMessage, context: &mut Context<Message>) {
        match message {
            MCpuMessage::Command(command, cube) => {
                let pes = &command.cubes[cube as usize].pes;
                self.pes.begin(command.request, pes.len());
                for (number, pe) in (0..).zip(pes) {
                    let command = Rc::clone(&command);
                    let (route, bytes) = (pe.to.clone(), command.bytes());
                    let target = CommandTarget { command, cube, pe: number };
                    send(context, route, bytes, to_pe(target));
                }
            }
            MCpuMessage::PeDone(CommandTarget { command, cube, .. }) => {
                if self.pes.finish(command.request) {
                    let route = command.cubes[cube as usize].back.clone();
                    send(context, route, 0, IoCpuMessage::CubeDone(command));
                }
            }
        }
    }

    pub(super) fn waits_for(&self) -> Option<String> {
        self.pes.waits_for("PEs").or_else(|| self.dma.waits_for())
    }
}

fn to_pe(target: CommandTarget) -> Message {
    match target.command.body.clone() {
        CommandBody::Launch(launch) => PeCpuMessage::Launch(target, launch).into(),
        CommandBody::Mappings(change) => PeDmaMessage::Mappings(target, change).into(),
        CommandBody::Ports(change) => PeCpuMessage::Ports(target, change).into(),
    }
}
