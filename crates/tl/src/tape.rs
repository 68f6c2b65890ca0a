//! The sequence of commands that a kernel issues, as a PE runs it.

use std::fmt;
use std::panic::Location;
use std::rc::Rc;

use cubeyard_device::pe::{Chunks, CommandId, Instruction, Instructions, SlotUse, Work};
use smallvec::{SmallVec, smallvec};

use super::composite::Plan;
use super::fuse::Chain;
use super::input::{Input, ValueId};
use super::mask::Mask;
use super::op::Op;
use super::place::{CommandLine, LineId, Place, ScriptLine};
use super::port::Port;
use super::reference::Accesses;
use crate::numeric::{Constant, TileType};

/// The meaning of a command, and the line that issued it.
#[derive(Clone, Debug)]
pub struct Order {
    /// Index of the command's step.
    pub(super) step: u32,
    /// The effect on tiles and memory, for data mode and for display.
    pub effect: Effect,
    /// The line of the kernel, if it is not written in Rust. It is a separate field because it fills a padding gap.
    script: Option<LineId>,
    /// The line of Rust.
    rust: &'static Location<'static>,
}

/// The effect of a command.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Loads a tile.
    Load {
        /// Id of the loaded value.
        value: ValueId,
        /// Type and shape of the tile.
        ty: TileType,
        /// The elements that are loaded, if not all, and the value of the others.
        mask: Option<Rc<(Mask, Constant)>>,
    },
    /// Stores a tile.
    Store {
        /// Tile to store.
        input: Input,
        /// The elements that are stored, if not all.
        mask: Option<Rc<Mask>>,
    },
    /// Computes a tile.
    Compute(Box<Computation>),
    /// Computes tiles by several operations in one pass.
    Fused(Rc<Chain>),
    /// Runs a tiled operation.
    Composite(Rc<Plan>),
    /// Sends a tile to another PE.
    Send {
        /// Tile to send.
        input: Input,
        /// The port to the receiver.
        port: Port,
    },
    /// Receives a tile from another PE.
    Receive {
        /// Id of the received value.
        value: ValueId,
        /// Type and shape of the tile.
        ty: TileType,
        /// The port to the sender.
        port: Port,
        /// Use of the message, if it stays in its slot.
        usage: Option<SlotUse>,
    },
    /// Frees the slot of a message that stayed there.
    Release {
        /// The port to the sender.
        port: Port,
    },
    /// Receives a tile from one of several PEs.
    ReceiveAny {
        /// Id of the received value.
        value: ValueId,
        /// Type and shape of the tile.
        ty: TileType,
        /// The ports to the possible senders.
        ports: Vec<Port>,
        /// Id of the value that holds the index of the sender's port.
        place: ValueId,
    },
}

const _: () = assert!(size_of::<Order>() <= 80, "there is one for each command of each PE");

/// An operation on tiles with its operands and result.
#[derive(Clone, Debug)]
pub struct Computation {
    /// The operation to perform.
    pub op: Op,
    /// Operands in order.
    pub inputs: SmallVec<[Operand; 2]>,
    /// Id of the computed value.
    pub output: ValueId,
    /// Type and shape of the result.
    pub ty: TileType,
}

/// An operand of a computation.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A tile in the TCM.
    Tile(Input),
    /// A number, in the type of the other operands.
    Number(Constant, TileType),
}

impl Operand {
    pub(super) fn ty(&self) -> &TileType {
        match self {
            Self::Tile(input) => &input.ty,
            Self::Number(_, ty) => ty,
        }
    }
}

/// The commands that a kernel has issued so far.
#[derive(Debug, Default)]
pub struct Tape {
    /// Steps so far; not shared until complete.
    steps: Rc<Instructions>,
    is_complete: bool,
    /// The effect of each command; separate from the steps, because running them does not need it.
    pub(super) orders: Chunks<Order>,
    /// Number of uses of each value.
    pub(super) uses: Vec<u32>,
    /// Whether the kernel still holds the tile of each value.
    pub(super) held: Vec<bool>,
    /// Number of floating-point operations.
    flop: u64,
    /// Lines of a kernel that is not written in Rust, as far as it has run.
    pub(super) lines: Vec<ScriptLine>,
    /// First command of each part that has no order with the others.
    pub(super) parts: Vec<CommandId>,
}

impl Order {
    pub(super) fn new(step: u32, effect: Effect, line: CommandLine) -> Self {
        Self { step, effect, script: line.script, rust: line.rust }
    }

    fn line(&self) -> CommandLine {
        CommandLine { rust: self.rust, script: self.script }
    }
}

impl Tape {
    /// Returns all steps in order.
    pub fn steps(&self) -> impl Iterator<Item = Instruction> {
        self.steps.iter()
    }

    /// Returns a step, or `None` beyond the last.
    pub fn step(&self, number: usize) -> Option<Instruction> {
        self.steps.get(number)
    }

    /// Appends a step and returns its index.
    pub(super) fn push(&mut self, step: Instruction) -> u32 {
        let steps = Rc::get_mut(&mut self.steps).expect("nobody has them before it is complete");
        steps.push(step);
        u32::try_from(steps.len() - 1).expect("fewer than 2³² steps")
    }

    /// Marks the tape as complete, so that the steps can be shared.
    pub(crate) fn end(&mut self) {
        self.is_complete = true;
    }

    /// Returns all steps once the tape is complete.
    pub(crate) fn complete(&self) -> Option<Rc<Instructions>> {
        self.is_complete.then(|| Rc::clone(&self.steps))
    }

    /// Returns the number of steps: commands, waits, fences and calls.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns the number of commands.
    pub fn commands(&self) -> usize {
        self.orders.len()
    }

    /// Returns the effect of a command and the line that issued it.
    ///
    /// # Panics
    /// If there is no command with this number.
    pub fn order(&self, command: CommandId) -> &Order {
        self.orders.get(command as usize).expect("a command of this number")
    }

    /// Returns the line for a line number and a location in Rust.
    pub(crate) fn place_of(&self, line: CommandLine) -> Place<'_> {
        match line.script {
            Some(script) => Place::Script(&self.lines[script.index()]),
            None => Place::Rust(line.rust),
        }
    }

    /// Returns the line that issued a command.
    ///
    /// # Panics
    /// If there is no command with this number.
    pub fn place(&self, command: CommandId) -> Place<'_> {
        self.place_of(self.order(command).line())
    }

    /// Formats a command, e.g. `load f16[32, 64] at softmax.rs:41`.
    pub(crate) fn describe(&self, command: CommandId) -> String {
        format!("{} at {}", self.order(command).effect, self.place(command))
    }

    /// Returns the work of a command for the engines.
    ///
    /// # Panics
    /// If there is no command with this number.
    pub fn work(&self, command: CommandId) -> Work {
        let step = self.step(self.order(command).step as usize);
        let command = step.as_ref().and_then(Instruction::command);
        command.expect("a step that is a command").work.clone()
    }

    /// Returns the floating-point operations, as [`Op::flop`] counts them.
    pub fn flop(&self) -> u64 {
        self.flop
    }
}

impl Tape {
    /// Adds floating-point operations, saturating.
    pub(super) fn add_flop(&mut self, flop: u64) {
        self.flop = self.flop.saturating_add(flop);
    }

    /// Returns whether a value was used for the last time, given the number of uses so far.
    pub(crate) fn is_last_use(&self, value: ValueId, used: u32) -> bool {
        let place = value as usize;
        !self.held[place] && self.uses[place] == used
    }
}

impl Effect {
    /// Formats like [`Display`](fmt::Display), but without the grid of a tiled operation.
    pub fn brief(&self) -> String {
        match self {
            Self::Composite(plan) => plan.brief(),
            other => other.to_string(),
        }
    }

    /// Returns the memory that a command of this effect and work accesses; each matrix of a tiled operation counts as a
    /// whole.
    pub(crate) fn accesses(&self, work: &Work) -> Accesses {
        match (self, work) {
            (Self::Composite(plan), _) => plan.accesses(),
            (_, Work::Dma(dma)) => smallvec![*dma],
            (_, Work::Pipeline(accesses)) => {
                let [loads, _, stores] = accesses.parts();
                let loads = (0..loads).map(|index| accesses.load(index));
                loads.chain((0..stores).map(|index| accesses.store(index))).collect()
            }
            (
                _,
                Work::Compute(_)
                | Work::Send(_)
                | Work::Receive(_)
                | Work::ReceiveAny(_)
                | Work::ReceiveInSlot(..)
                | Work::Release(_),
            ) => Accesses::new(),
        }
    }

    /// Returns the tiles that the effect reads.
    pub(crate) fn inputs(&self) -> SmallVec<[&Input; 2]> {
        match self {
            Self::Load { .. }
            | Self::Receive { .. }
            | Self::ReceiveAny { .. }
            | Self::Release { .. } => SmallVec::new(),
            Self::Store { input, .. } | Self::Send { input, .. } => smallvec![input],
            Self::Compute(computation) => computation
                .inputs
                .iter()
                .filter_map(|operand| match operand {
                    Operand::Tile(input) => Some(input),
                    Operand::Number(..) => None,
                })
                .collect(),
            Self::Fused(chain) => chain.inputs().iter().collect(),
            Self::Composite(plan) => plan.inputs().collect(),
        }
    }
}

/// Formats e.g. `load f16[32, 64]`.
impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load { ty, .. } => write!(f, "load {ty}"),
            Self::Store { input, .. } => write!(f, "store {}", input.ty),
            Self::Compute(computation) => {
                write!(f, "{} {}", computation.op.name(), computation.ty)
            }
            Self::Fused(chain) => f.write_str(&chain.describe()),
            Self::Composite(plan) => plan.fmt(f),
            Self::Send { input, port } => write!(f, "send {} to {port}", input.ty),
            Self::Receive { ty, port, usage, .. } => {
                let how = match usage {
                    None => "",
                    Some(SlotUse::Look) => ", not consumed",
                    Some(SlotUse::Hold) => ", in its slot",
                };
                write!(f, "receive {ty} from {port}{how}")
            }
            Self::Release { port } => write!(f, "release a slot of {port}"),
            Self::ReceiveAny { ty, ports, .. } => {
                let ports: Vec<_> = ports.iter().map(ToString::to_string).collect();
                write!(f, "receive {ty} from {}", ports.join(" or "))
            }
        }
    }
}

/// Lists the steps with their numbers and dependencies, one per line.
impl fmt::Display for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut orders = self.orders.iter().enumerate();
        for step in self.steps() {
            match &step {
                Instruction::Command(command) => {
                    let (number, order) = orders.next().expect("each command has one");
                    write!(f, "{number:>6}  {} at {}", order.effect, self.place_of(order.line()))?;
                    let before = command.before();
                    if !before.is_empty() {
                        write!(f, "  after {before:?}")?;
                    }
                    writeln!(f)?;
                }
                Instruction::Wait(command) => writeln!(f, "        wait for {command}")?,
                Instruction::Fence => writeln!(f, "        wait for all")?,
                Instruction::Dispatch(_) => {}
            }
        }
        Ok(())
    }
}
