//! Which memory a kernel may access: that of tensors.

use cubeyard_device::message::Rows;
use cubeyard_device::pe::Dma;

use super::Tl;

impl Tl {
    /// Ends the kernel if an access is not within a tensor.
    #[track_caller]
    pub(crate) fn check_live(&self, accesses: &[Dma]) {
        for dma in accesses {
            if let Some(address) = self.outside(dma) {
                let (verb, bytes) = (dma.direction, dma.bytes);
                let from = dma.address;
                self.fail(format!(
                    "{verb} of {bytes} bytes from {from:#x} on: {address:#x} is outside every tensor"
                ));
            }
        }
    }

    /// The first address of an access that is in no tensor.
    fn outside(&self, dma: &Dma) -> Option<u64> {
        let extent = dma.rows.map_or(dma.bytes, |rows| rows.extent(dma.bytes));
        self.first_outside(dma.address, extent)?;
        let rows = dma.rows.unwrap_or(Rows { bytes: dma.bytes, pitch: 0 });
        rows.segments(0, dma.bytes)
            .find_map(|(offset, bytes)| self.first_outside(dma.address + offset, bytes))
    }

    fn first_outside(&self, address: u64, bytes: u64) -> Option<u64> {
        let live = &self.state.site.live;
        let mut at = address;
        while at < address.saturating_add(bytes) {
            let place = live.partition_point(|range| range.start <= at);
            match live[..place].last().filter(|range| range.end > at) {
                Some(range) => at = range.end,
                None => return Some(at),
            }
        }
        None
    }
}
