//! Deployment of tensors, and its reverse: memory, addresses, mappings, contents.

use std::rc::Rc;
use std::sync::Arc;

use cubeyard_device::message::{Buffer, Mapping};
use cubeyard_device::request::{MemoryRange, PeGrid, PeRef, Request};
use cubeyard_memory::Bytes;
use cubeyard_memory::virtual_space::{VirtualAllocator, VirtualSpec};

use super::storage::{DeployedShard, Installed, Storage, Taken, TensorId};
use super::{Addressing, Inner};
use crate::error::{AllocateError, RuntimeError};
use crate::init::Init;
use crate::placement::{Layout, Shard};

impl Inner {
    /// Allocates memory for a layout, maps it, and writes the initial values. On an error everything is freed.
    pub(crate) fn deploy(
        self: &Rc<Self>,
        layout: Layout,
        init: &Init,
    ) -> Result<Rc<Storage>, RuntimeError> {
        self.check_open()?;
        layout.sips().iter().try_for_each(|&sip| self.check_slices(sip))?;
        let mut taken = Taken::default();
        let mut shards = Vec::with_capacity(layout.shards().len());
        let done = self
            .take_memory(&layout, &mut shards)
            .and_then(|()| self.take_addresses(&layout, &mut taken))
            .and_then(|()| self.install(&layout, &shards, &mut taken))
            .and_then(|()| self.write_all(&layout, &shards, init));
        if let Err(error) = done {
            self.give_back(taken, shards);
            return Err(error);
        }
        let storage = Rc::new(Storage {
            id: TensorId(self.deployed.replace(self.deployed.get() + 1)),
            context: Rc::clone(self),
            layout,
            shards,
            va_base: taken.virtual_range.map(|(va, _)| va),
            mapping: taken.mapping,
            stages: taken.stages,
            taken: Some(taken).into(),
        });
        self.storages.borrow_mut().insert(storage.id, Rc::downgrade(&storage));
        Ok(storage)
    }

    fn take_memory(
        &self,
        layout: &Layout,
        shards: &mut Vec<DeployedShard>,
    ) -> Result<(), RuntimeError> {
        for shard in layout.shards() {
            self.step()?;
            let bytes = self.rounded(shard.nbytes);
            let address = self.with_memory(shard.at, |memory| memory.allocate_hbm(bytes));
            let address = address.map_err(|source| AllocateError::Pe { pe: shard.at, source })?;
            let [nbytes, offset_bytes] = [shard.nbytes, shard.offset_bytes].map(Bytes::new);
            shards.push(DeployedShard { at: shard.at, address, nbytes, offset_bytes });
        }
        Ok(())
    }

    /// Rounds up to whole bursts, so that every shard starts at a burst boundary.
    fn rounded(&self, bytes: u64) -> Bytes {
        let burst = self.machine.borrow().topology().spec().hbm.burst;
        Bytes::new(bytes.next_multiple_of(burst.get()))
    }

    fn take_addresses(&self, layout: &Layout, taken: &mut Taken) -> Result<(), RuntimeError> {
        if self.addressing == Addressing::Physical || layout.nbytes() == 0 {
            return Ok(());
        }
        self.step()?;
        let bytes = Bytes::new(layout.nbytes());
        let mut space = self.virtual_space.borrow_mut();
        if space.is_none() {
            space.replace(self.fresh_space()?);
        }
        let space = space.as_mut().expect("it was made just now");
        let va = space.allocate(bytes).map_err(AllocateError::from)?;
        taken.virtual_range = Some((va, bytes));
        Ok(())
    }

    fn fresh_space(&self) -> Result<VirtualAllocator, RuntimeError> {
        let machine = self.machine.borrow();
        let spec = machine.topology().spec();
        let cubes = u64::from(spec.sips.count) * u64::from(spec.cube_count());
        let hbm = Bytes::new(spec.hbm.capacity.get() * cubes);
        let range = VirtualSpec::for_context(hbm, Some(spec.pe.mmu.page));
        Ok(VirtualAllocator::from_spec(VirtualSpec { base: self.virtual_base, ..range })?)
    }

    /// Installs the mappings in all MMUs through the fabric, simultaneously.
    fn install(
        &self,
        layout: &Layout,
        shards: &[DeployedShard],
        taken: &mut Taken,
    ) -> Result<(), RuntimeError> {
        let Some((va, _)) = taken.virtual_range else { return Ok(()) };
        let mut wanted = Vec::new();
        for group in layout.mapping_groups() {
            let mapping = |&shard: &usize| {
                let DeployedShard { address, nbytes, offset_bytes, .. } = shards[shard];
                let from = va.to_bits() + offset_bytes.get();
                Mapping { from, bytes: nbytes.get(), to: address }
            };
            let mappings: Arc<[Mapping]> = group.shards.iter().map(mapping).collect();
            let installed = |on| Installed { on, mappings: Arc::clone(&mappings) };
            wanted.extend(grids(&group.pes).into_iter().map(installed));
        }
        self.step()?;
        let requests = wanted.iter().map(|wanted| (wanted.clone().request(true), None));
        let done = self.perform_and(requests, |machine, request| machine.view().stages(request));
        // On an error, `give_back` removes the mappings installed so far.
        taken.installed = wanted;
        let (span, stages) = done?;
        (taken.mapping, taken.stages) = (span, stages);
        taken.is_installed = true;
        Ok(())
    }

    /// Writes initial values into every copy of every part.
    pub(crate) fn write_all(
        &self,
        layout: &Layout,
        shards: &[DeployedShard],
        init: &Init,
    ) -> Result<(), RuntimeError> {
        if !init.is_written() {
            return Ok(());
        }
        let mut requests = Vec::with_capacity(shards.len());
        for (part, copies) in layout.parts().zip(shards.chunks_exact(layout.copies())) {
            let buffer = self.data.then(|| contents(layout, &part[0], init)).transpose()?;
            for shard in copies {
                self.step()?;
                let DeployedShard { at, address, nbytes, .. } = *shard;
                let bytes = nbytes.get();
                let request = Request::MemoryWrite(MemoryRange { at, address, bytes });
                requests.push((request, buffer.clone()));
            }
        }
        self.perform(requests)?;
        Ok(())
    }

    /// Removes mappings through the fabric and frees addresses and memory, now or as soon as the machine is not
    /// borrowed. Errors are reported when the context is closed.
    pub(crate) fn give_back(&self, taken: Taken, shards: Vec<DeployedShard>) {
        self.when_free(move |this| this.give_back_now(taken, &shards));
    }

    fn give_back_now(&self, taken: Taken, shards: &[DeployedShard]) {
        let Taken { virtual_range, installed, is_installed, .. } = taken;
        if !installed.is_empty() {
            let removals = installed.into_iter().map(|installed| (installed.request(false), None));
            match self.perform(removals) {
                // After a failed installation, some mappings do not exist and cannot be removed.
                Err(RuntimeError::Machine { .. }) if !is_installed => {}
                Err(error) => self.note_release_error(&error),
                Ok(_) => {}
            }
        }
        if let Some((va, bytes)) = virtual_range {
            let mut space = self.virtual_space.borrow_mut();
            let space = space.as_mut().expect("it gave the range");
            space.free(va, bytes).expect("it was taken as one range");
        }
        for &DeployedShard { at, address, nbytes, .. } in shards {
            self.machine.borrow_mut().forget(address, nbytes.get());
            let bytes = self.rounded(nbytes.get());
            let freed = self.with_memory(at, |memory| memory.free_hbm(address, bytes));
            freed.expect("it was taken as one block");
        }
    }
}

impl Installed {
    fn request(self, map: bool) -> Request {
        let Self { on, mappings } = self;
        Request::Mappings { on, mappings, remove: !map }
    }
}

/// Returns the initial bytes of a part, row by row.
fn contents(layout: &Layout, part: &Shard, init: &Init) -> Result<Buffer, RuntimeError> {
    let (_, columns) = layout.shape().matrix();
    let mut bytes = Vec::with_capacity(usize::try_from(part.nbytes).expect("it fits memory"));
    let width = part.columns.end - part.columns.start;
    for row in part.rows.clone() {
        init.fill(layout.dtype(), row * columns + part.columns.start, width, &mut bytes)?;
    }
    Ok(Buffer::new(bytes.into()))
}

/// Groups sorted PEs by SIP into sets of cubes with the same PEs, since a command goes to every PE of every cube.
fn grids(pes: &[PeRef]) -> Vec<PeGrid> {
    let mut all: Vec<PeGrid> = Vec::new();
    for pes in pes.chunk_by(|one, next| (one.sip, one.cube) == (next.sip, next.cube)) {
        let PeRef { sip, cube, .. } = pes[0];
        let pes = || pes.iter().map(|pe| pe.pe);
        match all.iter_mut().find(|on| on.sip == sip && pes().eq(on.pes.iter().copied())) {
            Some(on) => on.cubes.push(cube),
            None => all.push(PeGrid { sip, cubes: vec![cube], pes: pes().collect() }),
        }
    }
    all.sort_unstable_by(|one, other| (one.sip, &one.pes).cmp(&(other.sip, &other.pes)));
    all
}
