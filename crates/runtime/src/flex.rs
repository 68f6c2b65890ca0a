//! The Flex family on the machine: regions of a SIP's HBM, programs in them, and launches.
//!
//! A SIP's memory is managed either in slices of PEs, for tensors, or in regions, for this. A region lies
//! in the HBM of one cube and is named by its physical address (PF). Programs and data get there by
//! `MemoryWrite`, and the addresses of a launch's operands, resolved through the segment table, by one more,
//! into memory of that launch, before it runs.

mod sip_memory;

pub use sip_memory::SipMemory;

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use cubeyard_device::message::Buffer;
use cubeyard_device::request::{PeRef, Request, Shard};
use cubeyard_memory::Bytes;
use cubeyard_memory::address::{CubeId, PeId, PhysAddr, SipId};
use cubeyard_memory::flex::{
    Allocation, CorrectionBuffer, FlexAllocator, FlexConfig, Launch, Program, VirtualAddress,
};

use crate::context::{Context, Inner, LaunchHandle, Targets};
use crate::error::RuntimeError;

/// A SIP whose memory is managed in regions.
#[derive(Debug)]
pub struct FlexDevice {
    context: Rc<Inner>,
    sip: SipId,
    allocator: FlexAllocator,
}

/// A launch of a program: on which blocks, and where.
#[derive(Clone, Debug)]
pub struct FlexLaunch<'a> {
    /// The kernel that the program is.
    pub kernel: &'a str,
    /// The program, loaded.
    pub program: &'a Program,
    /// Its operands.
    pub operands: &'a [&'a Allocation],
    /// The cubes that take part; all if none are named.
    pub cubes: &'a [CubeId],
    /// The PEs of each cube that take part; all if none are named.
    pub pes: &'a [PeId],
}

impl Context {
    /// Manages the memory of a SIP in regions from now on. No tensor may be there.
    pub fn flex(&self, sip: SipId, config: FlexConfig) -> Result<FlexDevice, RuntimeError> {
        self.inner.check_open()?;
        let memory = self.machine(|machine| {
            let there = machine.topology().sips().any(|other| other == sip);
            there.then(|| SipMemory::new(sip, machine.topology()))
        });
        let memory = memory.ok_or(RuntimeError::NoSuchSip { sip })?;
        let stats = self.memory_stats();
        if stats.pes.iter().any(|pe| pe.pe.sip == sip && pe.used > 0) {
            return Err(RuntimeError::TakenByTensors { sip });
        }
        let allocator = FlexAllocator::builder(Arc::new(memory)).config(config).build()?;
        self.inner.flex.borrow_mut().insert(sip);
        Ok(FlexDevice { context: Rc::clone(&self.inner), sip, allocator })
    }
}

impl Drop for FlexDevice {
    fn drop(&mut self) {
        self.context.flex.borrow_mut().remove(&self.sip);
    }
}

impl FlexDevice {
    /// The allocator of its regions.
    pub fn allocator(&self) -> &FlexAllocator {
        &self.allocator
    }

    /// Puts a program into memory of its own; a launch of it takes so many operands.
    pub fn load(&self, binary: &[u8], operands: usize) -> Result<Program, RuntimeError> {
        self.context.check_open()?;
        let program = self.allocator.load_program(Bytes::new(binary.len() as u64), operands)?;
        self.write_at(program.memory().address(), binary)?;
        Ok(program)
    }

    /// Writes into a block.
    pub fn write(&self, block: &Allocation, offset: u64, bytes: &[u8]) -> Result<(), RuntimeError> {
        self.write_at(place(block, offset, bytes.len())?, bytes)
    }

    /// Reads from a block.
    pub fn read(
        &self,
        block: &Allocation,
        offset: u64,
        bytes: usize,
    ) -> Result<Vec<u8>, RuntimeError> {
        let address = place(block, offset, bytes)?;
        if !self.context.data {
            return Err(RuntimeError::NoData);
        }
        self.read_at(address, bytes)
    }

    /// Reads from a place in a region, such as the corrections of a launch.
    pub fn read_address(
        &self,
        address: VirtualAddress,
        bytes: usize,
    ) -> Result<Vec<u8>, RuntimeError> {
        if !self.context.data {
            return Err(RuntimeError::NoData);
        }
        self.read_at(address, bytes)
    }

    /// Resolves the operands through the segment table, writes their addresses into memory of this launch,
    /// and launches it. They stay where they are, even if they are dropped, until it is done.
    pub fn launch(&self, launch: &FlexLaunch<'_>) -> Result<LaunchHandle, RuntimeError> {
        let prepared = self.prepare(launch)?;
        self.correct(&prepared)?;
        self.start(launch, &prepared)
    }

    /// Launches a program once for each tile of one of its operands, one after the other: the operand's
    /// offset moves, its region stays.
    pub fn launch_tiles(
        &self,
        launch: &FlexLaunch<'_>,
        operand: usize,
        tile: Bytes,
        stride: Bytes,
    ) -> Result<Vec<LaunchHandle>, RuntimeError> {
        let prepared = self.prepare(launch)?;
        let none = RuntimeError::Argument {
            kernel: launch.kernel.to_owned(),
            position: operand,
            expected: "an operand",
            found: "nothing",
        };
        let tiles = prepared.tiles(operand, tile, stride).ok_or(none)??;
        let corrections = self.correct(&prepared)?;
        let entry = Bytes::new(CorrectionBuffer::ENTRY.get() * operand as u64);
        let entry = VirtualAddress { offset: corrections.offset + entry, ..corrections };
        let mut handles = Vec::new();
        for place in tiles {
            let whole = &prepared.operands()[operand];
            let flat = whole.flat + (place.offset - whole.offset).get();
            let words = [flat, tile.get()].map(u64::to_le_bytes).concat();
            self.write_at(entry, &words)?;
            let handle = self.start(launch, &prepared)?;
            // The next tile's address replaces this one's, so this launch has to be done with it.
            handle.wait()?;
            handles.push(handle);
        }
        Ok(handles)
    }

    /// Pins and resolves the operands.
    fn prepare(&self, launch: &FlexLaunch<'_>) -> Result<Rc<Launch>, RuntimeError> {
        self.context.check_open()?;
        self.context.kernel(launch.kernel)?;
        let prepared = self.allocator.launch(launch.program, launch.operands.iter().copied())?;
        Ok(Rc::new(prepared))
    }

    /// Writes the addresses of the operands into the memory that the launch has for them, and says where.
    fn correct(&self, prepared: &Launch) -> Result<VirtualAddress, RuntimeError> {
        let (address, corrections) = prepared.corrections();
        self.write_at(address, corrections.bytes())?;
        Ok(address)
    }

    /// Launches what was prepared, which stays until the launch is done.
    fn start(
        &self,
        launch: &FlexLaunch<'_>,
        prepared: &Rc<Launch>,
    ) -> Result<LaunchHandle, RuntimeError> {
        let work = self.context.kernel(launch.kernel)?.work;
        let uses: Vec<Rc<dyn Any>> = vec![Rc::clone(prepared) as Rc<dyn Any>];
        let targets = Targets { sip: self.sip, cubes: launch.cubes, pes: launch.pes };
        self.context.submit_launch(launch.kernel, work, targets, &[], uses)
    }

    /// What a region's name and an offset stand for, cut where one PE's memory ends and the next begins.
    fn pieces(
        &self,
        address: VirtualAddress,
        bytes: usize,
    ) -> Vec<(Shard, std::ops::Range<usize>)> {
        let machine = self.context.machine.borrow();
        let slice = machine.topology().spec().hbm.slice;
        let mut at = 0;
        let mut pieces = Vec::new();
        while at < bytes {
            let bits = address.region_id.get() + address.offset.get() + at as u64;
            let place = PhysAddr::from_bits(bits).expect("within a region");
            let offset = place.hbm_offset().expect("regions are in HBM");
            let room = slice.get() - offset.get() % slice.get();
            let piece = room.min((bytes - at) as u64);
            let pe = place.hbm_pe(slice).expect("regions are in slices");
            let cube = place.cube().expect("regions are in cubes");
            let holder = PeRef { sip: self.sip, cube, pe };
            let end = at + usize::try_from(piece).expect("no more than is asked for");
            pieces.push((Shard { at: holder, address: place, bytes: piece }, at..end));
            at = end;
        }
        pieces
    }

    fn write_at(&self, address: VirtualAddress, bytes: &[u8]) -> Result<(), RuntimeError> {
        let pieces = self.pieces(address, bytes.len()).into_iter();
        let request = |(shard, range): (Shard, std::ops::Range<usize>)| {
            (Request::MemoryWrite(shard), Some(Buffer::new(bytes[range].to_vec().into())))
        };
        self.context.perform(pieces.map(request))?;
        Ok(())
    }

    fn read_at(&self, address: VirtualAddress, bytes: usize) -> Result<Vec<u8>, RuntimeError> {
        let pieces = self.pieces(address, bytes).into_iter();
        let requests = pieces.map(|(shard, _)| Request::MemoryRead(shard)).collect();
        let (pieces, _) = self.context.fetch(requests)?;
        Ok(pieces.concat())
    }
}

/// A place in a block, if so much is there.
fn place(block: &Allocation, offset: u64, bytes: usize) -> Result<VirtualAddress, RuntimeError> {
    let size = block.requested();
    let bytes = bytes as u64;
    if bytes == 0 || offset.checked_add(bytes).is_none_or(|end| end > size.get()) {
        return Err(RuntimeError::Beyond { offset, bytes, size });
    }
    let address = block.address();
    Ok(VirtualAddress { offset: address.offset + Bytes::new(offset), ..address })
}
