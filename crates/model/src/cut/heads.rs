//! Distribution of heads over groups of cubes.

use crate::spec::ModelSpec;

/// Distribution of heads over groups of cubes, all of which do the same work.
///
/// Each group has a number of *slots*, each for one head of K and V and the heads of Q that use it. The number
/// of slots is minimal; of equal distributions, the one with the smallest groups is chosen. Spare slots hold
/// further copies of heads of K and V, which share the heads of Q, if all heads get the same number of copies.
/// Otherwise they are padding.
///
/// The attention output is divided among the cubes of a group by features: by heads, or by equal pieces of heads if
/// there are too few heads.
///
/// ```
/// use cubeyard_model::ModelSpec;
/// use cubeyard_model::cut::Heads;
///
/// // 8 heads of K and V on 32 cubes: 4 cubes each, which divide the 4 heads of Q of a group.
/// let llama = ModelSpec::named("llama-8b")?;
/// let heads = Heads::new(&llama, 2, 16);
/// assert_eq!((heads.group_cubes, heads.queries, heads.pieces), (4, 4, 1));
/// // With 3 heads of Q in a group, each cube has three quarters of a head.
/// let heads = Heads::new(&ModelSpec { heads: 24, ..llama.clone() }, 2, 16);
/// assert_eq!((heads.pieces, heads.piece, heads.share), (4, 32, 3));
/// // One head of K and V is copied to both SIPs, each with half of the heads of Q.
/// let heads = Heads::new(&ModelSpec { kv_heads: 1, ..llama.clone() }, 2, 16);
/// assert_eq!((heads.copies, heads.queries, heads.group_cubes), (2, 16, 16));
/// // 10 of them are 5 for each group; 7 are padded to 8.
/// let heads = Heads::new(&ModelSpec { heads: 40, kv_heads: 10, ..llama.clone() }, 2, 16);
/// assert_eq!((heads.slots, heads.group_cubes, heads.padding()), (5, 16, 0));
/// let heads = Heads::new(&ModelSpec { heads: 28, kv_heads: 7, ..llama }, 2, 16);
/// assert_eq!((heads.slots, heads.group_cubes, heads.padding()), (1, 4, 1));
/// # Ok::<(), cubeyard_model::ModelError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Number of cubes in a group.
    pub group_cubes: u64,
    /// Number of slots per group.
    pub slots: u64,
    /// Number of slots of all groups.
    pub all_slots: u64,
    /// Number of slots that hold the same head of K and V.
    pub copies: u64,
    /// Number of heads of Q per slot.
    pub queries: u64,
    /// Number of pieces into which the output of a head of Q is divided.
    pub pieces: u64,
    /// Number of features of a piece.
    pub piece: u64,
    /// Number of pieces per cube.
    pub share: u64,
    /// Number of heads of K and V of the model.
    pub kv_heads: u64,
    /// Number of heads of Q that share a head of K and V.
    pub group: u64,
}

impl Heads {
    /// Distributes the heads of a model over `sips` SIPs with `cubes` cubes each.
    pub fn new(spec: &ModelSpec, sips: u64, cubes: u64) -> Self {
        let kv_heads = spec.kv_heads.max(1);
        // Groups do not span SIPs.
        let groups = (1..=cubes).rev().filter(|of_sip| cubes.is_multiple_of(*of_sip));
        let all = |groups: u64| groups * kv_heads.div_ceil(groups);
        // `min_by_key` returns the first of several minima, which has the most groups.
        let best = groups.map(|of_sip| of_sip * sips).min_by_key(|&groups| all(groups));
        let best = best.unwrap_or(sips);
        let (slots, all_slots) = (kv_heads.div_ceil(best), all(best));
        let copies = if all_slots.is_multiple_of(kv_heads) { all_slots / kv_heads } else { 1 };
        let (group_cubes, queries) = (sips * cubes / best, spec.group().div_ceil(copies));
        let [pieces, share] = pieces(slots * queries, group_cubes, spec.head_dim);
        let (piece, group) = (spec.head_dim / pieces, spec.group());
        Self {
            group_cubes,
            slots,
            all_slots,
            copies,
            queries,
            pieces,
            piece,
            share,
            kv_heads,
            group,
        }
    }

    /// Returns the number of projected heads per slot: heads of Q, one of K and one of V.
    pub fn of_slot(&self) -> u64 {
        self.queries + 2
    }

    /// Returns the number of projected heads per group.
    pub fn projected(&self) -> u64 {
        self.slots * self.of_slot()
    }

    /// Returns the number of slots without a head of the model.
    pub fn padding(&self) -> u64 {
        self.all_slots - self.copies * self.kv_heads
    }

    /// Returns the head of K and V of a slot, counted over all groups; `None` for padding.
    pub fn kv_head(&self, slot: u64) -> Option<u64> {
        let head = slot / self.copies;
        (head < self.kv_heads).then_some(head)
    }

    /// Returns a head of Q of a slot, counted over all groups; `None` for padding.
    pub fn query_head(&self, slot: u64, query: u64) -> Option<u64> {
        let within = slot % self.copies * self.queries + query;
        let head = self.kv_head(slot)?;
        (query < self.queries && within < self.group).then(|| head * self.group + within)
    }
}

/// Returns the number of pieces per head for `heads` heads, and the number of pieces per cube for `cubes` cubes. Heads
/// that cannot be divided this way are padded with further heads.
fn pieces(heads: u64, cubes: u64, head_dim: u64) -> [u64; 2] {
    let pieces = cubes / gcd(heads, cubes);
    if head_dim.is_multiple_of(pieces) {
        return [pieces, heads * pieces / cubes];
    }
    [1, heads.div_ceil(cubes)]
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
