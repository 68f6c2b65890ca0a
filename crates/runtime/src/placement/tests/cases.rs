//! Layouts that can be worked out by hand, and refused placements.

use cubeyard_device::topology::Topology;

use super::super::{Level, PlacementError, Shard};
use super::{Layout, Placement, Split, all_sips, pe, resolve, sip, splits};
use crate::dtype::DType;
use crate::shape::{Shape, ShapeError};

fn refused(placement: &Placement) -> PlacementError {
    placement.resolve(Shape::SCALAR, DType::F16, &Topology::embedded()).unwrap_err()
}

fn holders(layout: &Layout) -> Vec<String> {
    let line = |shard: &Shard| {
        let Shard { at, rows, columns, offset_bytes, nbytes } = shard;
        format!("{at} {rows:?} {columns:?} at {offset_bytes}, {nbytes} bytes")
    };
    layout.shards().iter().map(line).collect()
}

#[test]
fn levels_split_what_the_level_above_gave_them() {
    let placement = Placement {
        cubes: Some(2),
        pes: Some(2),
        ..splits(Split::Replicate, Split::RowWise, Split::ColumnWise)
    };
    assert_eq!(
        holders(&resolve(&placement, "5x3")),
        [
            "sip0.cube0.pe0 0..3 0..2 at 0, 12 bytes",
            "sip0.cube0.pe1 0..3 2..3 at 12, 6 bytes",
            "sip0.cube1.pe0 3..5 0..2 at 18, 8 bytes",
            "sip0.cube1.pe1 3..5 2..3 at 26, 4 bytes",
        ]
    );
}

#[test]
fn parts_are_dealt_in_the_order_in_which_sips_are_named() {
    let placement = Placement {
        sips: vec![sip(1), sip(0)],
        cubes: Some(1),
        pes: Some(1),
        ..splits(Split::RowWise, Split::Replicate, Split::Replicate)
    };
    assert_eq!(
        holders(&resolve(&placement, "4x2")),
        ["sip1.cube0.pe0 0..2 0..2 at 0, 8 bytes", "sip0.cube0.pe0 2..4 0..2 at 8, 8 bytes"]
    );
}

#[test]
fn rows_alone_make_a_tensor_row_major() {
    let placement =
        Placement { sips: all_sips(), ..splits(Split::RowWise, Split::RowWise, Split::RowWise) };
    let layout = resolve(&placement, "1000x3x5");
    for shard in layout.shards() {
        assert_eq!(shard.offset_bytes, shard.rows.start * 5 * 2);
    }
    assert_eq!(layout.shards().len(), 256);
}

#[test]
fn pes_without_rows_hold_nothing_and_still_see_everything() {
    let layout = resolve(&splits(Split::Replicate, Split::RowWise, Split::RowWise), "3");
    let at: Vec<_> = layout.shards().iter().map(|shard| shard.at).collect();
    assert_eq!(at, [pe(0, 0, 0), pe(0, 1, 0), pe(0, 2, 0)]);
    // SIPs replicate, so only PEs of the one SIP see it.
    let groups = layout.mapping_groups();
    assert_eq!(
        (groups.len(), groups[0].pes.len(), &groups[0].shards[..]),
        (1, 128, &[0, 1, 2][..])
    );
}

#[test]
fn a_scalar_is_held_once_or_by_everybody() {
    let split = resolve(&splits(Split::RowWise, Split::RowWise, Split::ColumnWise), "scalar");
    assert_eq!(holders(&split), ["sip0.cube0.pe0 0..1 0..1 at 0, 2 bytes"]);
    let copied = resolve(&Placement { sips: all_sips(), ..Placement::default() }, "scalar");
    assert_eq!((copied.shards().len(), copied.copies(), copied.held_bytes()), (256, 256, 512));
    let groups = copied.mapping_groups();
    assert_eq!(groups.len(), 256);
    assert!(groups.iter().all(|group| {
        group.pes.len() == 1 && copied.shards()[group.shards[0]].at == group.pes[0]
    }));
}

#[test]
fn splitting_the_columns_of_a_vector_gives_all_of_it_to_the_first() {
    let layout = resolve(&splits(Split::Replicate, Split::ColumnWise, Split::RowWise), "16");
    assert_eq!(layout.shards().len(), 8);
    assert!(layout.shards().iter().all(|shard| shard.at.cube.number() == 0));
}

#[test]
fn a_pe_without_a_copy_of_its_own_maps_the_first_of_its_cube() {
    let layout = resolve(&Placement { pes: Some(2), ..Placement::default() }, "8");
    let groups = layout.mapping_groups();
    assert_eq!(groups.len(), 32);
    assert_eq!(groups[0].pes.len(), 7);
    assert_eq!(groups[1].pes, [pe(0, 0, 1)]);
}

#[test]
fn groups_of_the_largest_machine_are_found_at_once() {
    let machine =
        "{sips: {count: 16}, pe: {routers: [r0c0, r0c0, r0c0, r0c0, r0c1, r0c1, r0c1, r0c1]}}";
    let machine = Topology::read("large.yaml", machine).unwrap();
    let sips: Vec<_> = machine.sips().collect();
    for a in Split::ALL {
        for b in Split::ALL {
            for c in Split::ALL {
                let placement = Placement { sips: sips.clone(), ..splits(a, b, c) };
                let shape = "8192x8192".parse().unwrap();
                let layout = placement.resolve(shape, DType::F16, &machine).unwrap();
                let pes: usize = layout.mapping_groups().iter().map(|group| group.pes.len()).sum();
                assert_eq!(pes, 16 * 16 * 8);
            }
        }
    }
}

#[test]
fn what_is_refused() {
    let base = Placement::default;
    let cases = [
        (
            Placement { cubes: Some(17), ..base() },
            "the placement needs 17 cubes, but the machine has 16",
        ),
        (Placement { pes: Some(9), ..base() }, "the placement needs 9 PEs, but the machine has 8"),
        (
            Placement { sips: vec![sip(0), sip(2)], ..base() },
            "there is no sip2: the machine has 2 SIPs, counted from 0",
        ),
        (
            Placement { sips: vec![sip(1), sip(1)], ..base() },
            "sip1 is named twice; a placement names each SIP once",
        ),
        (Placement { sips: vec![], ..base() }, "a placement needs at least one SIP"),
        (Placement { cubes: Some(0), ..base() }, "a placement needs at least one cube"),
        (Placement { pes: Some(0), ..base() }, "a placement needs at least one PE"),
    ];
    for (placement, message) in cases {
        assert_eq!(refused(&placement).to_string(), message);
    }
    let most = Placement { cubes: Some(16), pes: Some(8), sips: all_sips(), ..base() };
    assert!(most.resolve(Shape::SCALAR, DType::F16, &Topology::embedded()).is_ok());
    assert_eq!(
        refused(&Placement { pes: Some(u32::MAX), ..base() }),
        PlacementError::TooMany { level: Level::Pe, asked: u32::MAX, there: 8 }
    );
}

#[test]
fn bytes_beyond_64_bits_are_refused_and_the_last_ones_are_not() {
    let rows = Shape::new(&[1 << 61]).unwrap();
    let placement = splits(Split::Replicate, Split::RowWise, Split::RowWise);
    let machine = Topology::embedded();
    let error = placement.resolve(rows, DType::F64, &machine).unwrap_err();
    assert!(matches!(error, PlacementError::Shape(ShapeError::Overflow { .. })));
    assert_eq!(
        error.to_string(),
        "2305843009213693952 has more bytes of f64 than 64 bits can count"
    );
    let layout = placement.resolve(rows, DType::F32, &machine).unwrap();
    let last = layout.shards().last().unwrap();
    assert_eq!(last.bytes().end, 1 << 63);
    assert_eq!(layout.holder_for(last.at, (1 << 63) - 1), Some(last));
}
