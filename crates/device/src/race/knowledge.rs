//! Commands that a program knows to be done, by the messages that it has received and by its atomic operations.
//!
//! A message carries the set of commands whose end its sender had seen: the commands that the send comes
//! [after](crate::pe::Command::after), the commands that the program waited for or fenced, the commands a whole window
//! back, and the commands that the sender had itself learned of from messages. A command learns in the same ways from
//! the messages that it comes after. A command that merely happened to be over when a message left does not count: on a
//! slower machine it might still be pending.
//!
//! An atomic write that releases its address tells what a message would. An atomic read that acquires the address learns it.

mod clock;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use cubeyard_sim::NodeId;

use super::Agent;
use crate::message::{Direction, RequestId};
use crate::pe::{Command, CommandId, Dependencies, MemoryOrder, PortId};
use clock::Clock;

/// Smallest element of an atomic operation, in bytes.
const ATOMIC_BYTES: usize = 2;

/// A launch, and the `PE_CPU` of one of its PEs.
type ProgramId = (RequestId, NodeId);

/// DMA engine of a PE, and one of its ports.
type PortEnd = (NodeId, PortId);

#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    programs: BTreeMap<ProgramId, ProgramKnowledge>,
    /// Contents of the unreceived messages to each port, in the order of sending.
    on_the_way: BTreeMap<PortEnd, VecDeque<Clock>>,
    /// Commands that are done before the last release of an address, by memory and address.
    released: BTreeMap<(NodeId, u64), Clock>,
}

/// Most recent commands of a program, and its knowledge before them.
#[derive(Debug)]
struct ProgramKnowledge {
    id: ProgramId,
    window: u32,
    /// Number of the first command in `nodes`.
    first: CommandId,
    nodes: VecDeque<CommandKnowledge>,
    /// Commands in the window that the program has waited for.
    waited: Vec<CommandId>,
    /// First command that may be pending; all commands before it are done.
    fence: CommandId,
    /// Knowledge from messages a window back, or before a fence.
    told: Clock,
}

#[derive(Debug)]
struct CommandKnowledge {
    /// Dependencies of all parts.
    after: Dependencies,
    /// Further dependencies of the computations and stores of a pipeline.
    computes_after: Dependencies,
    /// Commands that the program had waited for when it issued this one.
    waited: Vec<CommandId>,
    /// First command that may have been pending then; all commands before it were done.
    fence: CommandId,
    /// Knowledge of the program when it issued the command.
    told: Clock,
    /// Content of the message that the command received.
    heard: Clock,
    /// Order that the command establishes as a part of an atomic operation.
    atomic: Option<MemoryOrder>,
    /// Knowledge when the command begins to compute, store or send; cached.
    knows: Option<Clock>,
}

impl Knowledge {
    pub(crate) fn issued(
        &mut self,
        id: ProgramId,
        number: CommandId,
        command: &Command,
        window: u32,
    ) {
        let program = self.programs.entry(id).or_insert_with(|| ProgramKnowledge::new(id, window));
        program.issue(number, command);
    }

    /// Records that a program has seen the end of a command.
    pub(crate) fn waited(&mut self, id: ProgramId, command: CommandId) {
        if let Some(program) = self.programs.get_mut(&id) {
            program.waited.push(command);
        }
    }

    /// Records that a program has seen the end of all its commands.
    pub(crate) fn fenced(&mut self, id: ProgramId) {
        if let Some(program) = self.programs.get_mut(&id) {
            program.fenced();
        }
    }

    /// Records that a port is new: no message is on its way there.
    pub(crate) fn installed(&mut self, port: PortEnd) {
        self.on_the_way.remove(&port);
    }

    pub(crate) fn sent(&mut self, id: ProgramId, command: CommandId, to: PortEnd) {
        let program = self.programs.get_mut(&id).expect("it has issued the command");
        let told = program.tells(command);
        self.on_the_way.entry(to).or_default().push_back(told);
    }

    /// Records that a command has received the next message of a port. If `stays`, the message remains for another
    /// command.
    pub(crate) fn received(&mut self, id: ProgramId, command: CommandId, at: PortEnd, stays: bool) {
        let told = self.on_the_way.get_mut(&at);
        let told = if stays {
            told.and_then(|all| all.front().cloned())
        } else {
            told.and_then(VecDeque::pop_front)
        };
        let program = self.programs.get_mut(&id).expect("it has issued the command");
        let node = program.node_mut(command).expect("it is under way");
        node.heard = told.expect("what is received was sent");
    }

    /// Returns the order that an access establishes as a part of an atomic operation.
    pub(super) fn atomic(&self, by: Agent) -> Option<MemoryOrder> {
        self.programs.get(&(by.launch, by.pe?))?.node(by.command)?.atomic
    }

    /// Records an access of an atomic operation: an acquire learns what the last release of each address told.
    pub(super) fn synchronized(
        &mut self,
        order: MemoryOrder,
        by: Agent,
        memory: NodeId,
        range: Range<u64>,
    ) {
        let Some(program) = by.pe.and_then(|pe| self.programs.get_mut(&(by.launch, pe))) else {
            return;
        };
        let places = range.step_by(ATOMIC_BYTES).map(|address| (memory, address));
        match order {
            MemoryOrder::Relaxed => {}
            MemoryOrder::Acquire => {
                let Some(node) = program.node_mut(by.command) else { return };
                for told in places.filter_map(|place| self.released.get(&place)) {
                    node.heard = std::mem::take(&mut node.heard).join(told);
                }
            }
            MemoryOrder::Release => {
                let told = program.tells(by.command);
                self.released.extend(places.map(|place| (place, told.clone())));
            }
        }
    }

    /// Returns whether messages or atomic operations order two accesses.
    pub(super) fn orders(&mut self, earlier: Agent, later: Agent) -> bool {
        // The host neither sends nor receives messages.
        let (Some(one), Some(other)) = (earlier.pe, later.pe) else { return false };
        let Some(program) = self.programs.get_mut(&(later.launch, other)) else { return false };
        program.knows_for(later).has((earlier.launch, one), earlier.command)
    }

    pub(super) fn clear(&mut self) {
        self.programs.clear();
        self.released.clear();
    }
}

impl ProgramKnowledge {
    fn new(id: ProgramId, window: u32) -> Self {
        Self {
            id,
            window,
            first: 0,
            nodes: VecDeque::new(),
            waited: Vec::new(),
            fence: 0,
            told: Clock::default(),
        }
    }

    fn issue(&mut self, number: CommandId, command: &Command) {
        // The command a window back was done before this one was issued.
        if let Some(back) = number.checked_sub(self.window) {
            self.told = self.told.clone().join(&self.after(back));
            self.fence = self.fence.max(back + 1);
        }
        let fence = self.fence;
        self.waited.retain(|&waited| waited >= fence);
        self.nodes.push_back(CommandKnowledge {
            after: command.after.clone(),
            computes_after: command.computes_after().clone(),
            waited: self.waited.clone(),
            fence,
            told: self.told.clone(),
            heard: Clock::default(),
            atomic: command.atomic,
            knows: None,
        });
        // A command in flight may depend on another one that has left the window since.
        if self.nodes.len() > 2 * self.window as usize {
            self.nodes.pop_front();
            self.first += 1;
        }
    }

    fn fenced(&mut self) {
        let end = self.first + u32::try_from(self.nodes.len()).expect("two windows");
        for command in self.fence..end {
            self.told = self.told.clone().join(&self.after(command));
        }
        self.fence = end;
    }

    fn node(&self, command: CommandId) -> Option<&CommandKnowledge> {
        self.nodes.get(command.checked_sub(self.first)? as usize)
    }

    fn node_mut(&mut self, command: CommandId) -> Option<&mut CommandKnowledge> {
        self.nodes.get_mut(command.checked_sub(self.first)? as usize)
    }

    /// Returns the knowledge after a command is done.
    fn after(&mut self, command: CommandId) -> Clock {
        let Some(heard) = self.node(command).map(|node| node.heard.clone()) else {
            return self.told.clone();
        };
        self.knows(command).join(&heard)
    }

    /// Returns the knowledge when a command begins to compute, store or send.
    fn knows(&mut self, command: CommandId) -> Clock {
        let Some(node) = self.node(command) else { return self.told.clone() };
        if let Some(known) = &node.knows {
            return known.clone();
        }
        let before: Vec<_> = node.after.iter().chain(&*node.computes_after).copied().collect();
        let known = self.beginning(command, &before);
        self.node_mut(command).expect("it is there").knows = Some(known.clone());
        known
    }

    /// Returns the knowledge at the start of an access.
    fn knows_for(&mut self, access: Agent) -> Clock {
        let node = self.node(access.command).filter(|node| !node.computes_after.is_empty());
        match node.map(|node| node.after.clone()) {
            Some(after) if access.direction == Direction::Read => {
                self.beginning(access.command, &after)
            }
            _ => self.knows(access.command),
        }
    }

    /// Returns the knowledge when a command is issued and all commands of `before` are done.
    fn beginning(&mut self, command: CommandId, before: &[CommandId]) -> Clock {
        let node = self.node(command).expect("it is under way");
        let (mut known, fence, waited) = (node.told.clone(), node.fence, node.waited.clone());
        for &before in before.iter().chain(&waited).filter(|&&before| before >= fence) {
            known = known.join(&self.after(before));
        }
        known
    }

    /// Returns the content of a message: the knowledge of the sending command, and the commands of this program that
    /// are done before it.
    fn tells(&mut self, command: CommandId) -> Clock {
        let known = self.knows(command);
        let Some(node) = self.node(command) else { return known };
        let fence = node.fence;
        let mut done = vec![];
        let mut open: Vec<_> = node.before().collect();
        while let Some(before) = open.pop() {
            if before >= fence && !done.contains(&before) {
                done.push(before);
                open.extend(self.node(before).into_iter().flat_map(CommandKnowledge::before));
            }
        }
        known.with(self.id, fence, done)
    }
}

impl CommandKnowledge {
    /// Returns the commands that are done before all parts of this one.
    fn before(&self) -> impl Iterator<Item = CommandId> {
        self.after.iter().chain(&*self.computes_after).chain(&self.waited).copied()
    }
}

#[cfg(test)]
mod tests;
