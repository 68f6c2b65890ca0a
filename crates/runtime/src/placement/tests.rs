//! Layouts against their definition, element by element.

use std::collections::BTreeSet;

use cubeyard_device::request::PeRef;
use cubeyard_device::topology::Topology;
use cubeyard_memory::address::{CubeId, PeId, SipId};
use proptest::prelude::*;

use super::split::portion;
use super::{Layout, MappingGroup, Placement, Split};
use crate::dtype::DType;
use crate::shape::Shape;

mod cases;

fn sip(number: u32) -> SipId {
    SipId::new(number).unwrap()
}

fn pe(of_sip: u32, cube: u32, pe: u32) -> PeRef {
    PeRef { sip: sip(of_sip), cube: CubeId::new(cube).unwrap(), pe: PeId::new(pe).unwrap() }
}

fn all_sips() -> Vec<SipId> {
    vec![sip(0), sip(1)]
}

fn splits(sip: Split, cube: Split, pe: Split) -> Placement {
    Placement { sip, cube, pe, ..Placement::default() }
}

fn resolve(placement: &Placement, shape: &str) -> Layout {
    let shape: Shape = shape.parse().unwrap();
    placement.resolve(shape, DType::F16, &Topology::embedded()).unwrap()
}

/// Returns the number of copies that a level contributes.
fn copies(split: Split, count: usize) -> usize {
    if split == Split::Replicate { count } else { 1 }
}

/// Checks the layout: distinct parts fill the addresses in order, each element is in exactly one part, each part has
/// the number of holders given by the replicating levels, and no PE holds two parts.
fn check(placement: &Placement, layout: &Layout) {
    let (cubes, pes) = (placement.cubes.unwrap_or(16), placement.pes.unwrap_or(8));
    let expected = copies(placement.sip, placement.sips.len())
        * copies(placement.cube, cubes as usize)
        * copies(placement.pe, pes as usize);
    let size = layout.dtype().size();
    let (rows, columns) = layout.shape().matrix();
    let mut seen = vec![0; usize::try_from(rows * columns).unwrap()];
    let mut end = 0;
    for part in layout.parts() {
        let first = &part[0];
        assert_eq!((part.len(), first.offset_bytes), (expected, end));
        end += first.nbytes;
        let area = first.rows.clone().count() * first.columns.clone().count();
        assert_eq!(first.nbytes, area as u64 * size);
        for row in first.rows.clone() {
            for column in first.columns.clone() {
                seen[usize::try_from(row * columns + column).unwrap()] += 1;
            }
        }
        for copy in part {
            assert_eq!((&copy.rows, &copy.columns), (&first.rows, &first.columns));
            assert_eq!(copy.bytes(), first.bytes());
        }
        assert!(part.is_sorted_by(|a, b| a.at < b.at));
    }
    assert_eq!(end, layout.nbytes());
    assert!(seen.iter().all(|&count| count == 1));
    let holders: BTreeSet<_> = layout.shards().iter().map(|shard| shard.at).collect();
    assert_eq!(holders.len(), layout.shards().len());
    assert!(holders.iter().all(|at| at.cube.number() < cubes && at.pe.number() < pes));
}

/// Finds the holder that a PE uses, by exhaustive search.
fn holder_by_search(layout: &Layout, from: PeRef, offset: u64) -> Option<PeRef> {
    let copies: Vec<_> =
        layout.shards().iter().filter(|shard| shard.bytes().contains(&offset)).collect();
    let first = |wanted: &dyn Fn(PeRef) -> bool| {
        copies.iter().map(|shard| shard.at).filter(|&at| wanted(at)).min()
    };
    first(&|at| at == from)
        .or_else(|| first(&|at| (at.sip, at.cube) == (from.sip, from.cube)))
        .or_else(|| first(&|at| at.sip == from.sip))
        .or_else(|| first(&|_| true))
}

/// Finds the shards that a PE maps, by exhaustive search; the rule is ADR-0011 D3.3.
fn mapped_by_search(placement: &Placement, layout: &Layout, from: PeRef) -> Vec<usize> {
    let mut mapped = Vec::new();
    for part in layout.parts() {
        let at = holder_by_search(layout, from, part[0].offset_bytes).unwrap();
        let same_sip = at.sip == from.sip;
        let local = match (placement.sip, placement.cube) {
            (_, Split::Replicate) => same_sip && at.cube == from.cube,
            (Split::Replicate, _) => same_sip,
            _ => true,
        };
        if local {
            mapped.push(layout.shards().iter().position(|shard| shard.at == at).unwrap());
        }
    }
    mapped
}

fn check_groups(placement: &Placement, layout: &Layout) {
    let groups = layout.mapping_groups();
    let mut seen = BTreeSet::new();
    for (place, MappingGroup { pes, shards }) in groups.iter().enumerate() {
        assert!(!shards.is_empty() && pes.is_sorted());
        assert!(groups[..place].iter().all(|other| other.shards != *shards));
        for &pe in pes {
            assert!(seen.insert(pe), "{pe} is in two groups");
            assert_eq!(*shards, mapped_by_search(placement, layout, pe), "{pe}");
        }
    }
    for &sip in &placement.sips {
        for cube in 0..placement.cubes.unwrap_or(16) {
            for number in 0..8 {
                let pe = pe(sip.number(), cube, number);
                let mapped = mapped_by_search(placement, layout, pe);
                assert_eq!(seen.contains(&pe), !mapped.is_empty(), "{pe}");
            }
        }
    }
}

fn any_split() -> impl Strategy<Value = Split> {
    prop::sample::select(Split::ALL.to_vec())
}

fn any_placement() -> impl Strategy<Value = Placement> {
    let sips = prop::sample::select(vec![vec![sip(0)], vec![sip(1)], all_sips(), {
        vec![sip(1), sip(0)]
    }]);
    let cubes = prop::option::weighted(0.8, 1..=16u32);
    let pes = prop::option::weighted(0.7, 1..=8u32);
    (any_split(), any_split(), any_split(), sips, cubes, pes)
        .prop_map(|(sip, cube, pe, sips, cubes, pes)| Placement { sip, cube, pe, sips, cubes, pes })
}

fn any_shape() -> impl Strategy<Value = Shape> {
    prop::collection::vec(0..=14u64, 0..=3).prop_map(|sizes| Shape::new(&sizes).unwrap())
}

proptest! {
    #[test]
    fn parts_fill_the_tensor_and_have_as_many_holders_as_replicas(
        placement in any_placement(),
        shape in any_shape(),
        dtype in prop::sample::select(vec![DType::I8, DType::F16, DType::F64]),
    ) {
        let layout = placement.resolve(shape, dtype, &Topology::embedded()).unwrap();
        check(&placement, &layout);
    }

    #[test]
    fn a_pe_uses_the_nearest_copy(
        placement in any_placement(),
        shape in any_shape(),
        from in (0..2u32, 0..16u32, 0..8u32),
    ) {
        let layout = placement.resolve(shape, DType::F16, &Topology::embedded()).unwrap();
        let from = pe(from.0, from.1, from.2);
        for offset in 0..layout.nbytes() {
            let holder = layout.holder_for(from, offset).map(|shard| shard.at);
            prop_assert_eq!(holder, holder_by_search(&layout, from, offset));
            prop_assert!(layout.holder_for(from, offset).unwrap().bytes().contains(&offset));
        }
        prop_assert_eq!(layout.holder_for(from, layout.nbytes()), None);
        prop_assert_eq!(layout.holder_for(from, u64::MAX), None);
    }

    #[test]
    fn portions_follow_each_other_and_differ_by_one_at_most(
        start in 0..1000u64,
        length in 0..1000u64,
        count in 1..40u64,
    ) {
        let mut end = start;
        for index in 0..count {
            let portion = portion(&(start..start + length), index, count);
            prop_assert_eq!(portion.start, end);
            end = portion.end;
            let more = u64::from(index < length % count);
            prop_assert_eq!(portion.end - portion.start, length / count + more);
        }
        prop_assert_eq!(end, start + length);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn groups_map_what_the_rule_says(placement in any_placement(), shape in any_shape()) {
        let layout = placement.resolve(shape, DType::I8, &Topology::embedded()).unwrap();
        check_groups(&placement, &layout);
    }
}

#[test]
fn every_combination_of_splits_holds_every_byte() {
    for a in Split::ALL {
        for b in Split::ALL {
            for c in Split::ALL {
                let placement = Placement { sips: all_sips(), ..splits(a, b, c) };
                let layout = resolve(&placement, "67x70");
                check(&placement, &layout);
                check_groups(&placement, &layout);
            }
        }
    }
}
