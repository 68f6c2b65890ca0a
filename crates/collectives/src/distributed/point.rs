//! Point-to-point transfers between ranks.

use cubeyard_runtime::Tensor;

use super::group::{Pending, transfer};
use super::{DistError, Distributed, ProcessGroup};
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Port, Tl};

impl Distributed {
    /// Begins a transfer of one rank's tensor into a tensor of another.
    pub fn begin_send(
        &self,
        source: (usize, &Tensor),
        target: (usize, &Tensor),
    ) -> Result<Pending, DistError> {
        self.begin_send_in(&self.world()?, source, target)
    }

    /// Begins a transfer as [`begin_send`](Self::begin_send) does, between members of a group.
    pub fn begin_send_in(
        &self,
        group: &ProcessGroup,
        source: (usize, &Tensor),
        target: (usize, &Tensor),
    ) -> Result<Pending, DistError> {
        self.check_outside(&"send")?;
        let context = self.state.launcher.context();
        let wired = self.wired(group)?;
        let direct = &wired.direct;
        let seats = transfer(context, direct.rank_map(), source, target)?;
        let piece = direct.piece(source.1.dtype());
        self.state.launcher.use_group(direct.number());
        let mut handles = Vec::new();
        for (seat, (peer, sends)) in seats.into_iter().zip([(target.0, 1), (source.0, 0)]) {
            let launch = seat.launch([sends, peer as u64, piece]);
            let (launcher, kernel) = (&self.state.launcher, &self.state.point);
            handles.push(launcher.launch(&context.stream(), kernel, &launch)?);
        }
        Ok(Pending::new("direct", context.now(), source.1.nbytes().get(), handles))
    }
}

/// Returns the kernel of both ends of a transfer.
pub(super) fn kernel() -> Kernel {
    Kernel::new("point to point", |tl, args| Box::pin(async move { body(&tl, &args) }))
}

/// Runs one end. Arguments: the tensor, 1 for the sender, the peer's rank, and the elements per message. A PE
/// that holds nothing does nothing, and neither does its counterpart.
fn body(tl: &Tl, args: &Args) {
    let Some(local) = args.tensor(0).local_if_any() else { return };
    let (sends, piece) = (args.whole(1) == 1, args.whole(3));
    let port = Port(u16::try_from(args.whole(2)).expect("fewer than 2¹⁶ ranks"));
    let (all, dtype) = (local.ty().elements(), local.ty().dtype);
    for start in (0..all).step_by(usize::try_from(piece).expect("a message fits memory")) {
        let shape = [piece.min(all - start)];
        let block = local.at(start, &shape);
        if sends {
            tl.send(port, &tl.load(&block));
        } else {
            tl.store(&block, &tl.recv_async(port, &shape, dtype));
        }
    }
}
