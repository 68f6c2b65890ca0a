//! What a kernel has ordered, command by command: the tape that a PE runs.

use std::fmt;
use std::panic::Location;
use std::rc::Rc;

use cubeyard_device::pe::{Chunks, CommandId, Step, Steps, Work};
use smallvec::{SmallVec, smallvec};

use super::composite::Plan;
use super::mask::Mask;
use super::message::Port;
use super::op::Op;
use crate::numeric::TileType;

/// The number of a value: what a tile holds.
pub type ValueId = u32;

/// A place in a kernel's source.
pub type Place = &'static Location<'static>;

/// What a command means, and where it was ordered.
#[derive(Clone, Debug)]
pub struct Order {
    /// The step that it is.
    pub(super) step: u32,
    /// For the numbers, and for people.
    pub effect: Effect,
    /// Where in the kernel.
    pub place: Place,
}

/// What a command means.
#[derive(Clone, Debug)]
pub enum Effect {
    /// A tile is loaded; what the mask leaves out is this value.
    Load {
        /// What it becomes.
        value: ValueId,
        /// Its kind.
        ty: TileType,
        /// What is loaded, if not all.
        mask: Option<(Rc<Mask>, f64)>,
    },
    /// A tile is stored.
    Store {
        /// What.
        input: Input,
        /// What is stored of it, if not all.
        mask: Option<Rc<Mask>>,
    },
    /// A tile is computed.
    Compute(Box<Computation>),
    /// A tiled operation.
    Composite(Rc<Plan>),
    /// A tile is sent to another PE.
    Send {
        /// What.
        input: Input,
        /// Where to.
        port: Port,
    },
    /// A tile is received from another PE.
    Receive {
        /// What it becomes.
        value: ValueId,
        /// Its kind.
        ty: TileType,
        /// Where from.
        port: Port,
    },
    /// A tile is received from one of several other PEs.
    ReceiveAny {
        /// What it becomes.
        value: ValueId,
        /// Its kind.
        ty: TileType,
        /// Where from: one of these.
        ports: Vec<Port>,
        /// Which of them it was.
        place: ValueId,
    },
}

const _: () = assert!(size_of::<Order>() <= 80, "there is one for each command of each PE");

/// What is computed.
#[derive(Clone, Debug)]
pub struct Computation {
    /// How.
    pub op: Op,
    /// Of what.
    pub inputs: SmallVec<[Operand; 2]>,
    /// What it becomes.
    pub output: ValueId,
    /// Its kind.
    pub ty: TileType,
}

/// A tile as an operand: a value, in a shape of its own.
#[derive(Clone, Debug)]
pub struct Input {
    /// The value.
    pub value: ValueId,
    /// The kind that it is seen as: the same elements.
    pub ty: TileType,
}

/// An operand.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A tile.
    Tile(Input),
    /// A number, of the type of the other operands.
    Number(f64, TileType),
}

impl Operand {
    pub(super) fn ty(&self) -> &TileType {
        match self {
            Self::Tile(input) => &input.ty,
            Self::Number(_, ty) => ty,
        }
    }
}

/// What a kernel has ordered so far.
#[derive(Debug, Default)]
pub struct Tape {
    /// The steps so far; nobody else has them until it is complete.
    steps: Rc<Steps>,
    is_complete: bool,
    /// What each command means: apart, because whoever only runs them does not ask.
    pub(super) orders: Chunks<Order>,
    /// How often each value is used.
    pub(super) uses: Vec<u32>,
    /// Whether the kernel still has the tile of each value.
    pub(super) held: Vec<bool>,
    /// The most of the TCM that its tiles took.
    pub(super) peak: u64,
    /// Floating-point operations.
    flop: u64,
}

impl Tape {
    /// All steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        self.steps.iter()
    }

    /// A step, if there are as many.
    pub fn step(&self, number: usize) -> Option<Step> {
        self.steps.get(number)
    }

    /// Adds a step: its number.
    pub(super) fn push(&mut self, step: Step) -> u32 {
        let steps = Rc::get_mut(&mut self.steps).expect("nobody has them before it is complete");
        steps.push(step);
        u32::try_from(steps.len() - 1).expect("fewer than 2³² steps")
    }

    /// Nothing more will be ordered: the steps can be shared.
    pub(crate) fn end(&mut self) {
        self.is_complete = true;
    }

    /// All steps, if nothing more will be ordered.
    pub(crate) fn complete(&self) -> Option<Rc<Steps>> {
        self.is_complete.then(|| Rc::clone(&self.steps))
    }

    /// Number of steps: commands, waits, fences and calls.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// How many commands there are.
    pub fn commands(&self) -> usize {
        self.orders.len()
    }

    /// What a command means.
    ///
    /// # Panics
    /// If there is none of that number.
    pub fn order(&self, command: CommandId) -> &Order {
        self.orders.get(command as usize).expect("a command of this number")
    }

    /// What a command is for the engines.
    ///
    /// # Panics
    /// If there is none of that number.
    pub fn work(&self, command: CommandId) -> Work {
        let step = self.step(self.order(command).step as usize);
        let work = step.as_ref().and_then(Step::work).map(|(work, _)| work.clone());
        work.expect("a step that is a command")
    }

    /// The most of the TCM that tiles took at once, in bytes.
    pub fn peak_bytes(&self) -> u64 {
        self.peak
    }

    /// Floating-point operations, as [`Op::flop`] counts them.
    pub fn flop(&self) -> u64 {
        self.flop
    }
}

impl Tape {
    /// Counts floating-point operations, up to as many as 64 bits can say.
    pub(super) fn add_flop(&mut self, flop: u64) {
        self.flop = self.flop.saturating_add(flop);
    }

    /// Whether a value that was used so often is used no more.
    pub(crate) fn is_last_use(&self, value: ValueId, used: u32) -> bool {
        let place = value as usize;
        !self.held[place] && self.uses[place] == used
    }
}

impl Effect {
    /// As it is displayed, but without how a tiled operation is cut.
    pub fn brief(&self) -> String {
        match self {
            Self::Composite(plan) => plan.brief(),
            other => other.to_string(),
        }
    }

    /// The tiles that it uses.
    pub(crate) fn inputs(&self) -> SmallVec<[&Input; 2]> {
        match self {
            Self::Load { .. } | Self::Receive { .. } | Self::ReceiveAny { .. } => SmallVec::new(),
            Self::Store { input, .. } | Self::Send { input, .. } => smallvec![input],
            Self::Compute(computation) => computation
                .inputs
                .iter()
                .filter_map(|operand| match operand {
                    Operand::Tile(input) => Some(input),
                    Operand::Number(..) => None,
                })
                .collect(),
            Self::Composite(plan) => plan.inputs().collect(),
        }
    }
}

/// As in `load f16[32, 64]`.
impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load { ty, .. } => write!(f, "load {ty}"),
            Self::Store { input, .. } => write!(f, "store {}", input.ty),
            Self::Compute(computation) => {
                write!(f, "{} {}", computation.op.name(), computation.ty)
            }
            Self::Composite(plan) => plan.fmt(f),
            Self::Send { input, port } => write!(f, "send {} to {port}", input.ty),
            Self::Receive { ty, port, .. } => write!(f, "receive {ty} from {port}"),
            Self::ReceiveAny { ty, ports, .. } => {
                let ports: Vec<_> = ports.iter().map(ToString::to_string).collect();
                write!(f, "receive {ty} from {}", ports.join(" or "))
            }
        }
    }
}

/// As in `load f16[32, 64] at softmax.rs:41`.
impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.effect, place(self.place))
    }
}

/// The file's name and the line.
pub fn place(at: Place) -> String {
    let file = at.file().rsplit(['/', '\\']).next().unwrap_or_default();
    format!("{file}:{}", at.line())
}

/// The steps with their numbers and what they wait for, as a person reads them.
impl fmt::Display for Tape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut orders = self.orders.iter().enumerate();
        for step in self.steps() {
            match (&step, step.work()) {
                (_, Some((_, after))) => {
                    let (number, order) = orders.next().expect("each command has one");
                    write!(f, "{number:>6}  {order}")?;
                    if !after.is_empty() {
                        write!(f, "  after {after:?}")?;
                    }
                    writeln!(f)?;
                }
                (Step::Wait(command), _) => writeln!(f, "        wait for {command}")?,
                (Step::Fence, _) => writeln!(f, "        wait for all")?,
                _ => {}
            }
        }
        Ok(())
    }
}
