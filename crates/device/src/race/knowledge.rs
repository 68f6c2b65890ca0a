//! What a program knows to be done, from messages that it has received.
//!
//! A message tells its receiver what its sender had seen the end of: the commands that the send comes
//! [after](crate::pe::Command::after), what the program waited for before it, what a fence has ended, what is
//! a whole window back, and what the sender had been told itself. A command knows what the messages have told
//! that it comes after in the same ways. That a command happened to be over when a message left counts for
//! nothing: on a slower machine it might not be.

mod clock;

use std::collections::{BTreeMap, VecDeque};

use cubeyard_sim::NodeId;

use super::Agent;
use crate::message::{Direction, RequestId};
use crate::pe::{Command, CommandId, Dependencies, PortId, Work};
use clock::Clock;

/// A launch, and the `PE_CPU` of one of its PEs.
type ProgramId = (RequestId, NodeId);

/// A port of a PE, by its DMA engine: where messages come to.
type PortEnd = (NodeId, PortId);

/// What all programs know.
#[derive(Debug, Default)]
pub(super) struct Knowledge {
    programs: BTreeMap<ProgramId, ProgramKnowledge>,
    /// What the messages tell that were sent to each port and not received. They come in this order.
    on_the_way: BTreeMap<PortEnd, VecDeque<Clock>>,
}

/// The last commands of a program, and what came before them.
#[derive(Debug)]
struct ProgramKnowledge {
    id: ProgramId,
    window: u32,
    /// The number of the first command that is kept.
    first: CommandId,
    nodes: VecDeque<CommandKnowledge>,
    /// Commands in the window that the program has waited for.
    waited: Vec<CommandId>,
    /// All commands before this one are done.
    fence: CommandId,
    /// What messages have told that are a window back, or before a fence.
    told: Clock,
}

/// A command.
#[derive(Debug)]
struct CommandKnowledge {
    /// What all of it comes after, but for the loads of a pipeline.
    after: Dependencies,
    /// What the loads of a pipeline come after.
    loads_after: Option<Dependencies>,
    /// What the program had waited for.
    waited: Vec<CommandId>,
    /// All commands before this one were done.
    fence: CommandId,
    /// What the program had been told.
    told: Clock,
    /// What it was told by the message that it received.
    heard: Clock,
    /// What is known when it begins to compute, store or send, once that has been worked out.
    knows: Option<Clock>,
}

impl Knowledge {
    /// A program has issued a command.
    pub(super) fn issued(
        &mut self,
        id: ProgramId,
        number: CommandId,
        command: &Command,
        window: u32,
    ) {
        let program = self.programs.entry(id).or_insert_with(|| ProgramKnowledge::new(id, window));
        program.issue(number, command);
    }

    /// A program has seen the end of a command.
    pub(super) fn waited(&mut self, id: ProgramId, command: CommandId) {
        if let Some(program) = self.programs.get_mut(&id) {
            program.waited.push(command);
        }
    }

    /// A program has seen the end of all that it issued.
    pub(super) fn fenced(&mut self, id: ProgramId) {
        if let Some(program) = self.programs.get_mut(&id) {
            program.fenced();
        }
    }

    /// A port is new: nothing is on its way there.
    pub(super) fn installed(&mut self, port: PortEnd) {
        self.on_the_way.remove(&port);
    }

    /// A command sends a message.
    pub(super) fn sent(&mut self, id: ProgramId, command: CommandId, to: PortEnd) {
        let program = self.programs.get_mut(&id).expect("it has issued the command");
        let told = program.tells(command);
        self.on_the_way.entry(to).or_default().push_back(told);
    }

    /// A command has received the next message at a port.
    pub(super) fn received(&mut self, id: ProgramId, command: CommandId, at: PortEnd) {
        let told = self.on_the_way.get_mut(&at).and_then(VecDeque::pop_front);
        let program = self.programs.get_mut(&id).expect("it has issued the command");
        let node = program.node_mut(command).expect("it is under way");
        node.heard = told.expect("what is received was sent");
    }

    /// Whether an access comes after another because of messages.
    pub(super) fn orders(&mut self, earlier: Agent, later: Agent) -> bool {
        // The host neither sends nor receives messages.
        let (Some(one), Some(other)) = (earlier.pe, later.pe) else { return false };
        let Some(program) = self.programs.get_mut(&(later.launch, other)) else { return false };
        program.knows_for(later).has((earlier.launch, one), earlier.command)
    }

    /// Forgets all programs.
    pub(super) fn clear(&mut self) {
        self.programs.clear();
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
        let is_pipeline = matches!(command.work, Work::Pipeline(_));
        self.nodes.push_back(CommandKnowledge {
            after: command.after.clone(),
            loads_after: is_pipeline.then(|| command.loads_after.clone()),
            waited: self.waited.clone(),
            fence,
            told: self.told.clone(),
            heard: Clock::default(),
            knows: None,
        });
        // One under way may come after another that has left the window since.
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

    /// What is known once a command is done.
    fn after(&mut self, command: CommandId) -> Clock {
        let Some(heard) = self.node(command).map(|node| node.heard.clone()) else {
            return self.told.clone();
        };
        self.knows(command).join(&heard)
    }

    /// What is known when a command begins to compute, store or send.
    fn knows(&mut self, command: CommandId) -> Clock {
        let Some(node) = self.node(command) else { return self.told.clone() };
        if let Some(known) = &node.knows {
            return known.clone();
        }
        let loads = node.loads_after.clone().unwrap_or_default();
        let before: Vec<_> = node.after.iter().chain(&*loads).copied().collect();
        let known = self.beginning(command, &before);
        self.node_mut(command).expect("it is there").knows = Some(known.clone());
        known
    }

    /// What is known of others when an access begins.
    fn knows_for(&mut self, access: Agent) -> Clock {
        let loads = self.node(access.command).and_then(|node| node.loads_after.clone());
        match loads {
            Some(loads) if access.direction == Direction::Read => {
                self.beginning(access.command, &loads)
            }
            _ => self.knows(access.command),
        }
    }

    /// What is known when all of these are done, and a command was issued.
    fn beginning(&mut self, command: CommandId, before: &[CommandId]) -> Clock {
        let node = self.node(command).expect("it is under way");
        let (mut known, fence, waited) = (node.told.clone(), node.fence, node.waited.clone());
        for &before in before.iter().chain(&waited).filter(|&&before| before >= fence) {
            known = known.join(&self.after(before));
        }
        known
    }

    /// What a command tells: what it knows, and which commands of this program are done before it.
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
    /// The commands that were done before all of it was.
    fn before(&self) -> impl Iterator<Item = CommandId> {
        let loads = self.loads_after.iter().flat_map(|loads| loads.iter());
        self.after.iter().chain(loads).chain(&self.waited).copied()
    }
}

#[cfg(test)]
mod tests;
