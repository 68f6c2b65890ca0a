//! Segments mapped in the MMUs of a SIP's PEs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use cubeyard_device::message::Mapping;
use cubeyard_device::request::Request;
use cubeyard_memory::Bytes;
use cubeyard_memory::address::SipId;
use cubeyard_memory::flex::{Segment, SegmentTable, VirtualAddress};

use crate::context::Inner;
use crate::error::RuntimeError;

/// Segments mapped at their flat addresses in the MMUs of a SIP's PEs, on first use by a launch. Dropping this removes
/// the mappings.
#[derive(Debug)]
pub(super) struct Windows {
    context: Rc<Inner>,
    sip: SipId,
    /// Mappings of each segment, by flat address.
    mapped: RefCell<BTreeMap<u64, Arc<[Mapping]>>>,
}

impl Windows {
    pub(super) fn new(context: Rc<Inner>, sip: SipId) -> Self {
        Self { context, sip, mapped: RefCell::default() }
    }

    /// Maps the segments of a table, and unmaps segments that are no longer in it: they have no blocks.
    pub(super) fn follow(&self, table: &SegmentTable) -> Result<(), RuntimeError> {
        let mut wanted = BTreeMap::new();
        for segment in table.entries().iter().flatten() {
            wanted.insert(segment.base, self.mappings(segment)?);
        }
        let known = self.mapped.borrow().clone();
        for (base, mappings) in &known {
            if wanted.get(base) != Some(mappings) {
                perform(&self.context, self.sip, mappings, false)?;
                self.mapped.borrow_mut().remove(base);
            }
        }
        for (base, mappings) in wanted {
            if known.get(&base) != Some(&mappings) {
                self.context.step()?;
                perform(&self.context, self.sip, &mappings, true)?;
                self.mapped.borrow_mut().insert(base, mappings);
            }
        }
        Ok(())
    }

    /// Returns the mappings of a segment, one for each PE memory that it covers.
    fn mappings(&self, segment: &Segment) -> Result<Arc<[Mapping]>, RuntimeError> {
        let start = VirtualAddress { region_id: segment.region_id, offset: Bytes::ZERO };
        let pieces = self.context.pieces(self.sip, start, segment.size.get())?.into_iter();
        let mapping =
            |(shard, range): (cubeyard_device::request::MemoryRange, std::ops::Range<u64>)| {
                Mapping { from: segment.base + range.start, bytes: shard.bytes, to: shard.address }
            };
        Ok(pieces.map(mapping).collect())
    }
}

fn perform(
    context: &Inner,
    sip: SipId,
    mappings: &Arc<[Mapping]>,
    map: bool,
) -> Result<(), RuntimeError> {
    let on = context.machine.borrow().topology().grid(sip);
    let mappings = Arc::clone(mappings);
    let request = Request::Mappings { on, mappings, remove: !map };
    context.perform([(request, None)])?;
    Ok(())
}

impl Drop for Windows {
    fn drop(&mut self) {
        let (sip, mapped) = (self.sip, self.mapped.take());
        self.context.when_free(move |context| {
            for mappings in mapped.values() {
                if let Err(error) = perform(context, sip, mappings, false) {
                    context.note_release_error(&error);
                }
            }
        });
    }
}
