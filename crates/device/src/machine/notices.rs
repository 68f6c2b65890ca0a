//! Notices about programs, and messages that were not received.

use std::ops::Range;

use super::Machine;
use crate::log::Watch;
use crate::message::RequestId;
use crate::model::Part;
use crate::notice::{Notice, Noticed};

impl<W: Watch> Machine<W> {
    /// Sets the physical ranges that a launch may access by unmapped addresses. Accesses to other ranges become
    /// [notices](Self::take_notices).
    pub fn give(&mut self, launch: RequestId, ranges: Vec<Range<u64>>) {
        self.shared.notices.borrow_mut().give(launch, ranges);
    }

    /// Takes the notices of the selected launches.
    pub fn take_notices(&self, of: impl FnMut(RequestId) -> bool) -> Vec<Notice> {
        self.shared.notices.borrow_mut().take(of)
    }

    /// Drops the messages that were not received, each with a notice, and resets all ports. Returns the number of
    /// dropped messages. No program may be running.
    pub fn clear_mail(&mut self) -> u64 {
        let mail = self.shared.mail.take();
        if mail > 0 {
            let unreceived = self.unreceived();
            unreceived.into_iter().for_each(|notice| self.shared.notices.borrow_mut().note(notice));
            for node in self.view().nodes() {
                if let Some(Part::PeCpu(cpu)) = self.engine.component_mut(node) {
                    cpu.core_mut().reset_ports();
                }
            }
        }
        mail
    }

    /// Returns a notice to the sender of each unreceived message.
    fn unreceived(&self) -> Vec<Notice> {
        let (view, topology) = (self.view(), self.topology());
        let mut notices = Vec::new();
        for (node, cpu) in view.nodes().filter_map(|node| Some((node, view.cpu(node)?))) {
            for (at, slot, bytes) in cpu.core().unreceived() {
                let sender = topology.pe_cpu(at.peer);
                let sent = view.cpu(sender).and_then(|cpu| cpu.core().sender(at.peer_port, slot));
                if let (Some((launch, command)), Some(to)) = (sent, topology.pe_of(node)) {
                    let what = Noticed::Unreceived { to, bytes };
                    notices.push(Notice { launch, pe: sender, command, what });
                }
            }
        }
        notices
    }
}
