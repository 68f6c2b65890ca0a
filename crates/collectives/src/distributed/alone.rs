//! A simulated machine with one collective and no other work.

use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, Tensor};

use super::error::DistError;
use super::group::Group;
use super::shape::PeElements;

/// A machine with a group and its tensors: an input and an output for each SIP, spread evenly over the PEs.
pub struct Alone {
    /// Input and output of each SIP.
    pub tensors: Vec<(Tensor, Tensor)>,
    /// Group of all ranks.
    pub group: Group,
    /// Simulated machine with the group and its tensors.
    pub context: Context,
}

impl Alone {
    /// Places the tensors of a group. `input` returns the input of a SIP, with a row for each of its PEs. Without
    /// `input`, inputs are zeros.
    pub fn new(
        context: Context,
        group: Group,
        dtype: DType,
        shape: PeElements,
        input: impl Fn(&Context, usize) -> Result<Option<Tensor>, DistError>,
    ) -> Result<Self, DistError> {
        let map = group.rank_map();
        let rows = (map.cubes.len() * map.pes.len()) as u64;
        let zeros = |elements| context.zeros(&[rows, elements], dtype);
        let mut tensors = Vec::new();
        for (index, &sip) in map.sips.iter().enumerate() {
            let input = input(&context, index)?.map_or_else(|| zeros(shape.input), Ok)?;
            tensors.push((input.to(&by_rows(sip))?, zeros(shape.output)?.to(&by_rows(sip))?));
        }
        Ok(Self { tensors, group, context })
    }

    /// Returns the tensors by reference, as [`Group`] takes them.
    pub fn pairs(&self) -> Vec<(&Tensor, &Tensor)> {
        self.tensors.iter().map(|(input, output)| (input, output)).collect()
    }
}

/// Returns a placement with one row for each PE of a SIP.
pub(crate) fn by_rows(sip: SipId) -> Placement {
    Placement { cube: Split::RowWise, pe: Split::RowWise, sips: vec![sip], ..Placement::default() }
}
