//! Effects of commands on the tiles of a program.

use std::rc::Rc;

use cubeyard_device::message::Direction;
use cubeyard_device::pe::{CommandId, Pipeline, Work};
use cubeyard_runtime::dtype::DType;

use super::KernelProgram;
use crate::numeric::{self, Array, Constant, NumericError, TileType};
use crate::{Computation, Effect, Input, Mask, Operand, Tape};

impl KernelProgram {
    /// Returns an operand in the shape in which an operation views it.
    fn array(&self, input: &Input) -> Rc<Array> {
        let array = self.values.get(input.value);
        if *array.ty() == input.ty {
            return array;
        }
        numeric::reshape(&array, &input.ty.shape).expect("checked when it was ordered").into()
    }

    pub(super) fn load(
        &mut self,
        command: CommandId,
        load: u32,
        bytes: Vec<u8>,
    ) -> Result<(), NumericError> {
        let tape = Rc::clone(&self.tape);
        let tape = tape.borrow();
        match &tape.order(command).effect {
            Effect::Load { value, ty, mask } => {
                let parts = self.partial.entry(command).or_default();
                parts.insert(load, bytes);
                if parts.len() < accesses(&tape.work(command))[0] {
                    return Ok(());
                }
                let parts = self.partial.remove(&command).unwrap_or_default();
                let all: Vec<u8> = parts.into_values().flatten().collect();
                self.values.set(*value, spread(ty, mask.as_deref(), &all)?);
            }
            Effect::Composite(plan) => {
                self.composites.entry(command).or_default().loaded(plan, load, &bytes)?;
            }
            Effect::Receive { value, ty, .. } | Effect::ReceiveAny { value, ty, .. } => {
                self.values.set(*value, Array::from_bytes(ty, &bytes)?);
            }
            other => unreachable!("{other} loads nothing"),
        }
        Ok(())
    }

    /// Records the port from which a message arrived.
    pub(super) fn choose(&mut self, command: CommandId, place: usize) -> Result<(), NumericError> {
        let tape = Rc::clone(&self.tape);
        let tape = tape.borrow();
        if let Effect::ReceiveAny { place: value, .. } = tape.order(command).effect {
            let ty = TileType::new(DType::I32, &[1])?;
            self.values.set(value, Array::full(ty, place)?);
        }
        Ok(())
    }

    pub(super) fn compute(&mut self, command: CommandId, part: u32) -> Result<(), NumericError> {
        let tape = Rc::clone(&self.tape);
        let tape = tape.borrow();
        match &tape.order(command).effect {
            Effect::Compute(computation) => {
                let Computation { op, inputs, output, .. } = &**computation;
                let arrays: Vec<Rc<Array>> = inputs
                    .iter()
                    .map(|operand| match operand {
                        Operand::Tile(input) => Ok(self.array(input)),
                        Operand::Number(number, _) => Array::filled(&[], *number).map(Rc::new),
                    })
                    .collect::<Result<_, _>>()?;
                let arrays: Vec<_> = arrays.iter().map(|array| &**array).collect();
                self.values.set(*output, op.compute(&arrays)?);
                self.used(&tape, command);
            }
            Effect::Fused(chain) => {
                let inputs: Vec<_> = chain.inputs().iter().map(|input| self.array(input)).collect();
                for (&value, array) in chain.values().iter().zip(chain.compute(&inputs)?) {
                    self.values.set(value, array);
                }
                self.used(&tape, command);
            }
            Effect::Composite(plan) => {
                let mut run = self.composites.remove(&command).unwrap_or_default();
                run.computed(plan, part, &mut |input| self.array(input))?;
                if part + 1 == plan.parts()[1] {
                    for (value, array) in run.results(plan) {
                        self.values.set(value, array);
                    }
                    self.used(&tape, command);
                }
                let [_, computations, stores] = plan.parts();
                if part + 1 < computations || stores > 0 {
                    self.composites.insert(command, run);
                }
            }
            other => unreachable!("{other} computes nothing"),
        }
        Ok(())
    }

    /// Counts a use of each input of a command.
    fn used(&mut self, tape: &Tape, command: CommandId) {
        for input in tape.order(command).effect.inputs() {
            self.values.used(input.value, tape);
        }
    }

    /// Returns the bytes that a store or a message moves.
    pub(super) fn stored(&mut self, command: CommandId, store: u32) -> Vec<u8> {
        let tape = Rc::clone(&self.tape);
        let tape = tape.borrow();
        match &tape.order(command).effect {
            Effect::Store { input, mask } => {
                let bytes = self.array(input).to_bytes();
                let bytes = gather(&bytes, input.ty.dtype.width(), mask.as_deref());
                let part = part_of(&tape, command, store, bytes);
                if is_last_store(&tape, command, store) {
                    self.used(&tape, command);
                }
                part
            }
            Effect::Send { input, .. } => {
                let bytes = self.array(input).to_bytes();
                self.used(&tape, command);
                bytes
            }
            Effect::Composite(_) => {
                let run = self.composites.get_mut(&command).expect("it was computed before");
                run.payload(store)
            }
            other => unreachable!("{other} stores nothing"),
        }
    }
}

/// Expands loaded elements to a tile; elements outside the mask get the mask's value.
fn spread(
    ty: &TileType,
    mask: Option<&(Mask, Constant)>,
    bytes: &[u8],
) -> Result<Array, NumericError> {
    let Some((mask, other)) = mask else { return Array::from_bytes(ty, bytes) };
    let mut all = Array::filled(&ty.shape, *other)?.to_bytes();
    let width = ty.dtype.width();
    let places = all.chunks_exact_mut(width).zip(mask.touched());
    let touched = places.filter(|(_, touched)| **touched).map(|(place, _)| place);
    touched.zip(bytes.chunks_exact(width)).for_each(|(place, bytes)| place.copy_from_slice(bytes));
    Array::from_bytes(ty, &all)
}

/// Returns the bytes of the elements that a mask selects.
fn gather(bytes: &[u8], width: usize, mask: Option<&Mask>) -> Vec<u8> {
    let Some(mask) = mask else { return bytes.to_vec() };
    let elements = bytes.chunks_exact(width).zip(mask.touched());
    elements.filter(|(_, touched)| **touched).flat_map(|(bytes, _)| bytes).copied().collect()
}

/// Returns the number of loads and stores of a command.
fn accesses(work: &Work) -> [usize; 2] {
    match work {
        Work::Dma(dma) if dma.direction == Direction::Read => [1, 0],
        Work::Dma(_) => [0, 1],
        Work::Pipeline(pipeline) => {
            let [loads, _, stores] = pipeline.parts();
            [loads as usize, stores as usize]
        }
        _ => [0, 0],
    }
}

/// Returns the bytes of each access of a store, in order.
fn stores(tape: &Tape, command: CommandId) -> Vec<u64> {
    match tape.work(command) {
        Work::Dma(dma) => vec![dma.bytes],
        Work::Pipeline(pipeline) => {
            (0..pipeline.parts()[2]).map(|index| pipeline.store(index).bytes).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the bytes that one access of a store moves.
fn part_of(tape: &Tape, command: CommandId, store: u32, bytes: Vec<u8>) -> Vec<u8> {
    let sizes = stores(tape, command);
    if sizes.len() == 1 {
        return bytes;
    }
    let from: u64 = sizes[..store as usize].iter().sum();
    let from = usize::try_from(from).expect("it fits memory");
    let size = usize::try_from(sizes[store as usize]).expect("it fits memory");
    bytes[from..from + size].to_vec()
}

fn is_last_store(tape: &Tape, command: CommandId, store: u32) -> bool {
    store as usize + 1 == stores(tape, command).len()
}
