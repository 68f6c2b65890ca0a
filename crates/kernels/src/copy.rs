//! `y = x`, block by block, from local or remote memory.

use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::{Ref, Tl};

/// The PE whose memory a PE copies from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFrom {
    /// The PE itself.
    Own,
    /// The PE with the same number in the next cube, cyclically.
    NextCube,
    /// The first PE of the first cube.
    First,
}

impl CopyFrom {
    fn name(self) -> &'static str {
        match self {
            Self::Own => "copy_local",
            Self::NextCube => "copy_remote",
            Self::First => "copy_all_to_one",
        }
    }

    /// Returns the source row of this PE. Rows are numbered by PE, cube by cube.
    fn source(self, tl: &Tl, args: &Args) -> Ref {
        let (pe, pes) = (tl.program_id(0), tl.num_programs(0));
        let row = match self {
            Self::Own => return args.tensor(0).local(),
            Self::NextCube => (tl.program_id(1) + 1) % tl.num_programs(1) * pes + pe,
            Self::First => 0,
        };
        let all = args.tensor(0).whole();
        all.block(&[row, 0], &[1, all.dim(1)])
    }
}

/// Copies rows: each PE writes the row that it holds. Arguments: x and y, with a row per PE, and the elements per
/// block.
pub fn copy(from: CopyFrom) -> Kernel {
    Kernel::new(from.name(), move |tl, args| Box::pin(async move { body(from, &tl, &args) }))
}

fn body(from: CopyFrom, tl: &Tl, args: &Args) {
    let (x, y) = (from.source(tl, args), args.tensor(1).local());
    let (length, block) = (x.dim(1), args.whole(2));
    for index in 0..tl.cdiv(length, block) {
        let start = [0, index * block];
        let shape = [1, block.min(length - index * block)];
        tl.store(&y.block(&start, &shape), &tl.load(&x.block(&start, &shape)));
    }
}
