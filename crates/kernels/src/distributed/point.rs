//! From one rank to another.

use cubeyard_memory::address::SipId;
use cubeyard_runtime::{Argument, Launch, Tensor};

use super::group::{Pending, check_alike, check_place, rectangle};
use super::{DistError, Distributed, ProcessGroup};
use crate::kernel::{Args, Kernel};
use crate::tl::{Port, Tl};

impl Distributed<'_> {
    /// Begins to move a tensor of one rank into one of another.
    pub fn begin_send(
        &self,
        source: (usize, &Tensor),
        target: (usize, &Tensor),
    ) -> Result<Pending, DistError> {
        self.begin_send_in(&self.world()?, source, target)
    }

    /// As [`begin_send`](Self::begin_send), between members of a group.
    pub fn begin_send_in(
        &self,
        group: &ProcessGroup,
        (from, source): (usize, &Tensor),
        (to, target): (usize, &Tensor),
    ) -> Result<Pending, DistError> {
        let team = self.team(group)?;
        let sip = |rank: usize| -> Result<SipId, DistError> {
            let world = team.sips.len();
            team.sips.get(rank).copied().ok_or(DistError::Rank { rank, world })
        };
        check_place("send", from, source, sip(from)?)?;
        check_place("recv", to, target, sip(to)?)?;
        check_alike("recv", to, target, source)?;
        if from == to {
            let what = "the one that it is sent to".to_owned();
            return Err(DistError::Place { operation: "send", rank: from, what });
        }
        let piece = team.direct.piece(source.dtype());
        self.launcher.use_group(team.direct.number());
        let mut handles = Vec::new();
        for (sip, tensor, peer, sends) in
            [(sip(from)?, source, to, 1.0), (sip(to)?, target, from, 0.0)]
        {
            let (cubes, pes) = rectangle(tensor)?;
            let mut arguments = vec![Argument::Tensor(tensor)];
            arguments.extend([sends, peer as f64, piece as f64].map(Argument::Scalar));
            let launch = Launch { arguments, sip, cubes, pes };
            handles.push(self.launcher.launch(&self.context.stream(), &self.point, &launch)?);
        }
        Ok(Pending::new("direct", self.context.now(), source.nbytes(), handles))
    }
}

/// What both ends of a transfer run.
pub(super) fn kernel() -> Kernel {
    Kernel::new("point to point", |tl, args| Box::pin(async move { body(&tl, &args) }))
}

/// Arguments: the tensor, whether it is sent, the peer's rank, and the elements of a message.
fn body(tl: &Tl, args: &Args) {
    let (local, sends, piece) = (args.tensor(0).local(), args.whole(1) == 1, args.whole(3));
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
