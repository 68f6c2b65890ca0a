//! Random machines have the same properties as the default machine.

use std::fmt::Write as _;

use cubeyard_memory::address::PhysAddr;
use proptest::prelude::*;
use proptest::sample::subsequence;

use super::Topology;
use super::routes::check_all_pairs;
use crate::topology::NodeKind;

/// Parameters of a machine that determine its graph.
#[derive(Clone, Debug)]
struct Machine {
    sips: u32,
    cubes: (u32, u32),
    routers: (u32, u32),
    /// Whether the middle is removed, if that leaves a ring.
    has_hole: bool,
    pes: Vec<prop::sample::Index>,
    lanes: usize,
    chiplets: Vec<&'static str>,
    balance: bool,
}

fn machine() -> impl Strategy<Value = Machine> {
    let chiplets = subsequence(vec!["N", "E", "S", "W"], 1..=4).prop_shuffle();
    let pes = prop::collection::vec(any::<prop::sample::Index>(), 1..=4);
    let grids = (1..=3_u32, (1..=3_u32, 1..=3_u32), (1..=5_u32, 1..=5_u32));
    (grids, any::<bool>(), pes, 1..=3_usize, chiplets, any::<bool>()).prop_map(
        |((sips, cubes, routers), has_hole, pes, lanes, chiplets, balance)| Machine {
            sips,
            cubes,
            routers,
            has_hole,
            pes,
            lanes,
            chiplets,
            balance,
        },
    )
}

impl Machine {
    fn removed(&self) -> Vec<String> {
        let (rows, columns) = self.routers;
        let is_inside = |at, end| at > 0 && at + 1 < end;
        let inside = |row| {
            let columns = (0..columns).filter(move |&column| is_inside(column, columns));
            columns.map(move |column| format!("r{row}c{column}"))
        };
        let rows = (0..rows).filter(|&row| self.has_hole && is_inside(row, rows));
        rows.flat_map(inside).collect()
    }

    fn text(&self) -> String {
        let (rows, columns) = self.routers;
        let removed = self.removed();
        let all =
            (0..rows).flat_map(|row| (0..columns).map(move |column| format!("r{row}c{column}")));
        let left: Vec<_> = all.filter(|router| !removed.contains(router)).collect();
        let pes: Vec<_> = self.pes.iter().map(|pe| pe.get(&left).as_str()).collect();
        // Lanes at both ends of the edges first, so that the numbers are not the places.
        let lanes = self.lanes.min(rows.min(columns) as usize);
        let lane = |count: u32| -> Vec<u32> { (0..count).rev().take(lanes).collect() };
        let mut text = String::new();
        let (w, h) = self.cubes;
        writeln!(text, "sips: {{count: {}}}\ncubes: {{w: {w}, h: {h}}}", self.sips).unwrap();
        writeln!(
            text,
            "routers: {{rows: {rows}, columns: {columns}, removed: [{}]}}",
            removed.join(", ")
        )
        .unwrap();
        writeln!(text, "pe: {{routers: [{}]}}", pes.join(", ")).unwrap();
        writeln!(text, "hbm: {{bytes_per_cube: {} MiB}}", pes.len()).unwrap();
        writeln!(
            text,
            "sram: {{router: {}}}\nm_cpu: {{router: {}}}",
            left[0],
            left[left.len() - 1]
        )
        .unwrap();
        writeln!(
            text,
            "ucie: {{connection_rows: {:?}, connection_columns: {:?}, balance: {}}}",
            lane(rows),
            lane(columns),
            self.balance
        )
        .unwrap();
        writeln!(text, "io: {{chiplets: [{}]}}", self.chiplets.join(", ")).unwrap();
        text
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_machines_have_sound_graphs_and_routes(machine in machine()) {
        let text = machine.text();
        let topology = Topology::read("random", &text);
        let topology = topology.map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert!(topology.links().is_sorted_by_key(|link| (link.to, link.from)));
        for link in topology.links() {
            let reverse = topology.link(link.reverse);
            prop_assert_eq!((reverse.from, reverse.to), (link.to, link.from));
        }
        let (w, h) = machine.cubes;
        let beside_io = |side: &&str| if matches!(*side, "N" | "S") { w } else { h };
        let borders = 2 * ((w - 1) * h + w * (h - 1))
            + machine.chiplets.iter().map(beside_io).sum::<u32>();
        let ports = topology.nodes().iter().filter(|node| node.kind == NodeKind::Port).count();
        prop_assert_eq!(ports, (machine.sips * borders) as usize);
        let stride = 1 + topology.nodes().len() / 40;
        prop_assert!(check_all_pairs(&topology, stride) > 0);
    }

    #[test]
    fn addresses_lead_to_where_they_say_or_nowhere(
        (sip, die, window, offset) in (0..4_u64, 0..18_u64, 0..8_u64, 0..8_u64 << 20),
        machine in machine(),
    ) {
        let bits = sip << 47 | die << 42 | window << 35 | offset;
        let topology = Topology::read("random", &machine.text()).unwrap();
        let Ok(address) = PhysAddr::from_bits(bits) else { return Ok(()) };
        let Ok(node) = topology.resolve(address) else { return Ok(()) };
        let place = topology.node(node).place;
        prop_assert_eq!((place.sip, place.cube), (Some(address.sip()), address.cube()));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "[a-z0-9:{}\\[\\], \n\"'&*!|>#.-]{0,80}") {
        let _ = Topology::read("random", &text);
    }

    #[test]
    fn a_default_with_a_value_replaced_is_read_or_refused(
        line in any::<prop::sample::Index>(),
        value in "[-a-z0-9.\\[\\] ]{0,12}",
    ) {
        let lines: Vec<_> = crate::topology::DEFAULT.lines().collect();
        let keyed: Vec<usize> =
            (0..lines.len()).filter(|&at| lines[at].contains(": ") && !lines[at].trim_start().starts_with('#')).collect();
        let &at = line.get(&keyed);
        let key = lines[at].split(": ").next().unwrap();
        let replaced = format!("{key}: {value}");
        let mut lines = lines.clone();
        lines[at] = &replaced;
        let _ = Topology::read("random", &lines.join("\n"));
    }
}
