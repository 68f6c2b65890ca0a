//! Small hand-written programs, to test how the runtime handles launches.

use cubeyard_device::message::Direction;
use cubeyard_device::pe::{Command, CommandId, Dependencies, Dma, Instruction, Program, Work};
use cubeyard_runtime::{BoundArgument, Launch, LaunchHandle, RuntimeError, Site, Stream};

/// Computes for a number of dispatches, then stores bytes at an address, if there are any.
#[derive(Debug)]
pub(crate) struct Stores {
    wait: Option<u32>,
    address: u64,
    bytes: Option<Vec<u8>>,
    payload: Vec<u8>,
}

impl Stores {
    pub(crate) fn after(wait: u32, address: u64, bytes: &[u8]) -> Box<dyn Program> {
        let payload = bytes.to_vec();
        Box::new(Self { wait: Some(wait), address, bytes: Some(payload.clone()), payload })
    }
}

impl Program for Stores {
    fn next(&mut self) -> Result<Option<Instruction>, String> {
        if let Some(wait) = self.wait.take().filter(|&wait| wait > 0) {
            return Ok(Some(Instruction::Dispatch(wait)));
        }
        let Some(bytes) = self.bytes.take() else { return Ok(None) };
        let (direction, bytes) = (Direction::Write, bytes.len() as u64);
        let work = Work::Dma(Dma { direction, address: self.address, bytes, rows: None });
        Ok(Some(Instruction::Command(Command::new(work, Dependencies::default()))))
    }

    fn has_data(&self) -> bool {
        true
    }

    fn payload(&mut self, _: CommandId, _: u32) -> Result<Vec<u8>, String> {
        Ok(self.payload.clone())
    }
}

/// Keeps a PE busy for a number of dispatches, of 1 ns each.
#[derive(Debug)]
struct Busy(Option<u32>);

impl Program for Busy {
    fn next(&mut self) -> Result<Option<Instruction>, String> {
        Ok(self.0.take().map(Instruction::Dispatch))
    }
}

/// Launches a program that keeps PEs busy for a time, in ns.
pub(crate) fn busy(
    stream: &Stream,
    launch: &Launch<'_>,
    ns: u32,
) -> Result<LaunchHandle, RuntimeError> {
    let mut programs =
        |_: &Site, _: &[BoundArgument]| Ok(Box::new(Busy(Some(ns))) as Box<dyn Program>);
    stream.launch_programs("busy", launch, &mut programs)
}
