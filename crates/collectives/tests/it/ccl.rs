//! `ccl.yaml`: errors in the file, the choice of algorithms, and the settings of groups.

use std::rc::Rc;

use cubeyard_collectives::collective::{Algorithm, Operation, ReduceOp, Ring, algorithms};
use cubeyard_collectives::distributed::ccl::{CclConfig, DEFAULT};
use cubeyard_collectives::distributed::{DistError, RankMap, Ranks};
use cubeyard_device::pe::WaitMode;
use cubeyard_device::topology::Topology;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::{RingConfig, SlotKind};
use cubeyard_sim::Span;
use expect_test::{Expect, expect};

const ALL_REDUCE: Operation = Operation::AllReduce(ReduceOp::Sum);

fn read(text: &str) -> CclConfig {
    CclConfig::read("mine.yaml", text).unwrap()
}

fn machine(sips: u32) -> Topology {
    let text = format!(
        "sips: {{count: {sips}}}\ncubes: {{w: 2, h: 2}}\npe: {{routers: [r0c0, r0c1]}}\n\
         hbm: {{bytes_per_cube: 64 MiB}}\n"
    );
    Topology::read("machine.yaml", &text).unwrap()
}

/// Every invalid file gives an error with its line, key and expected value.
fn check(texts: &[&str], expected: &Expect) {
    let errors =
        texts.iter().map(|text| CclConfig::read("mine.yaml", text).unwrap_err().to_string());
    expected.assert_eq(&(errors.collect::<Vec<_>>().join("\n") + "\n"));
}

#[test]
fn the_default_has_every_algorithm_and_the_published_channels() {
    let config = CclConfig::embedded();
    for algorithm in algorithms() {
        assert!(config.named(algorithm.name()).is_ok(), "ccl.yaml lacks {}", algorithm.name());
    }
    assert_eq!((config.forced.as_deref(), config.defaults.ring), (None, RingConfig::default()));
    assert_eq!((config.defaults.ranks, config.defaults.world_size), (Ranks::Sip, None));
    assert!(DEFAULT.lines().all(|line| line.len() < 160), "it is read in a terminal");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    check(
        &[
            "default: {}\n",
            "defaults:\n  n_slot: 8\n",
            "defaults:\n  algorithm: rnig\n",
            "defaults: {ranks: core}\n",
            "defaults: {world_size: 0}\n",
            "defaults:\n\n  buffer_kind: L2\n",
            "defaults: {backpressure: spin}\n",
            "defaults: {backpressure: poll, poll_ns: 0}\n",
            "defaults: {slot_size: 12}\n",
            "defaults: {slot_size: 1 GiB}\n",
            "defaults: {n_slots: 0, credit_bytes: 0}\n",
            "defaults: {credit_bytes: many}\n",
        ],
        &expect![[r#"
            mine.yaml:1: expected a known key, found `default`; the nearest is `defaults`
            mine.yaml:2: defaults: expected a known key, found `n_slot`; the nearest is `n_slots`
            mine.yaml:2: defaults.algorithm: expected one of auto, direct, ring, grid, halving-doubling, lrab, tree, found rnig; the nearest is `ring`
            mine.yaml:1: defaults.ranks: expected one of sip, cube, pe, found core; the nearest is `cube`
            mine.yaml:1: defaults.world_size: expected a whole number from 1 to 65536, found 0
            mine.yaml:3: defaults.buffer_kind: expected one of tcm, sram, hbm, found L2; the nearest is `tcm`
            mine.yaml:1: defaults.backpressure: expected one of sleep, poll, found spin; the nearest is `sleep`
            mine.yaml:1: defaults.poll_ns: expected a number of nanoseconds above 0, found 0
            mine.yaml:1: defaults.slot_size: expected a multiple of 8 bytes up to 8.00 MiB, found 12
            mine.yaml:1: defaults.slot_size: expected a multiple of 8 bytes up to 8.00 MiB, found 1 GiB
            mine.yaml:1: defaults.n_slots: expected a whole number from 1 to 4096, found 0
            mine.yaml:1: defaults.credit_bytes: expected a whole number from 1 to 4096, found many
        "#]],
    );
}

#[test]
fn what_is_wrong_with_an_algorithm_is_said_with_its_place() {
    check(
        &[
            "algorithms: [ring]\n",
            "algorithms:\n  mine: {n_slots: 8}\n",
            "algorithms:\n  mine:\n    module: rings\n",
            "algorithms:\n  ring:\n    from_byte: 8\n",
            "algorithms:\n  ring: {from_bytes: 64 KiB, to_bytes: 4 KiB}\n",
            "algorithms:\n  ring: {from_world: 4, to_world: 2}\n",
            "algorithms:\n  ring: {sip_topologies: ring_1d}\n",
            "algorithms:\n  ring: {sip_topologies: [ring_1d, torus]}\n",
            "algorithms:\n  ring: {enabled: maybe}\n",
            "algorithms:\n  ring: {}\n  ring: {}\n",
            "algorithms:\n  ring:\n",
            "algorithms: {ring: {algorithm: auto}}\n",
        ],
        &expect![[r#"
            mine.yaml:1: algorithms: expected a mapping, found a list of 1
            mine.yaml:2: algorithms.mine: expected the key `module`, found none
            mine.yaml:3: algorithms.mine.module: expected one of direct, ring, grid, tree, halving-doubling, lrab, found rings; the nearest is `ring`
            mine.yaml:3: algorithms.ring: expected a known key, found `from_byte`; the nearest is `from_bytes`
            mine.yaml:2: algorithms.ring.to_bytes: expected at least 65536, the lower limit, found 4 KiB
            mine.yaml:2: algorithms.ring.to_world: expected at least 4, the lower limit, found 2
            mine.yaml:2: algorithms.ring.sip_topologies: expected a list of SIP topologies, found ring_1d
            mine.yaml:2: algorithms.ring.sip_topologies[1]: expected one of ring_1d, torus_2d, mesh_2d_no_wrap, found torus; the nearest is `torus_2d`
            mine.yaml:2: algorithms.ring.enabled: expected true or false, found maybe
            mine.yaml:3: algorithms.ring: expected the key once, found it in line 2, too
            mine.yaml:2: algorithms.ring: expected a mapping, found nothing
            mine.yaml:1: algorithms.ring: expected a known key, found `algorithm`; the nearest is `module`
        "#]],
    );
    let error = CclConfig::read_bytes("mine.yaml", b"\xff").unwrap_err();
    assert_eq!(error.to_string(), "mine.yaml:1: expected UTF-8, found byte 0xff");
}

#[test]
fn the_world_is_the_algorithms_then_the_defaults_then_the_machines() {
    let machine = machine(8);
    let world = |text: &str| {
        let resolved = read(text).resolve(&machine, ALL_REDUCE, DType::F32, 4096).unwrap();
        RankMap::new(&machine, &resolved.config).unwrap().world().ranks
    };
    assert_eq!(world("defaults: {algorithm: ring}\n"), 8);
    assert_eq!(world("defaults: {algorithm: ring, world_size: 4}\n"), 4);
    let own = "algorithms: {ring: {world_size: 2}}\n";
    assert_eq!(world(&format!("defaults: {{algorithm: ring, world_size: 4}}\n{own}")), 2);
    assert_eq!(world(&format!("defaults: {{algorithm: direct, world_size: 4}}\n{own}")), 4);
    assert_eq!(world("defaults: {algorithm: ring, ranks: pe}\n"), 64);
    let error = read("defaults: {world_size: 9}\n")
        .resolve(&machine, ALL_REDUCE, DType::F32, 4096)
        .unwrap_err();
    assert_eq!(error.to_string(), "a world of 9 ranks: expected 1 to 8, the number of SIPs");
    let part = read("defaults: {ranks: cube, world_size: 3}\n").resolve(
        &machine,
        ALL_REDUCE,
        DType::F32,
        1,
    );
    assert_eq!(
        part.unwrap_err().to_string(),
        "a world of 3 ranks: expected 1 to 32, the number of cubes, and a multiple of 4: all of a SIP"
    );
}

#[test]
fn channels_are_as_the_file_says() {
    let text = "defaults: {algorithm: deep, backpressure: poll, poll_ns: 5}\n\
                algorithms: {deep: {module: ring, n_slots: 16, slot_size: 64 KiB, buffer_kind: hbm}}\n";
    let resolved = read(text).resolve(&machine(2), ALL_REDUCE, DType::F32, 4096).unwrap();
    let waiting = WaitMode::Poll(Span::from_ps(5000));
    let [slot_bytes, credit_bytes] = [64 << 10, 16].map(cubeyard_memory::Bytes::new);
    let ring = RingConfig { kind: SlotKind::Hbm, slots: 16, slot_bytes, credit_bytes, waiting };
    assert_eq!((resolved.name.as_str(), resolved.algorithm.name()), ("deep", "ring"));
    assert_eq!(resolved.config.ring, ring);
}

#[test]
fn the_quickest_is_chosen_of_those_that_may_be() {
    let machine = machine(8);
    let chosen = |text: &str, bytes, operation| {
        let mut config = read(text);
        config.algorithms.retain(|own| ["direct", "ring"].contains(&own.name.as_str()));
        config.resolve(&machine, operation, DType::F32, bytes).map(|resolved| resolved.name)
    };
    let two = "algorithms: {direct: {}, ring: {}}\n";
    assert_eq!(chosen(two, 256, Operation::AllToAll).unwrap(), "direct");
    // A ring of eight passes a message on seven times; direct sends the message once.
    assert_eq!(chosen(two, 256, Operation::AllGather).unwrap(), "direct");
    // The root sends a long one once around a ring, but to each of seven if it does so itself.
    assert_eq!(chosen(two, 16 << 20, Operation::Broadcast(0)).unwrap(), "ring");
    let short = "algorithms: {direct: {to_bytes: 1 KiB}, ring: {from_bytes: 1025}}\n";
    assert_eq!(chosen(short, 1024, Operation::AllGather).unwrap(), "direct");
    assert_eq!(chosen(short, 1025, Operation::AllGather).unwrap(), "ring");
    let small = "algorithms: {direct: {to_world: 4}, ring: {from_world: 8}}\n";
    assert_eq!(chosen(small, 256, Operation::AllGather).unwrap(), "ring");
    let torus = "algorithms: {direct: {sip_topologies: [torus_2d]}}\n";
    assert_eq!(chosen(torus, 256, Operation::AllGather).unwrap(), "ring");
    let off = "algorithms: {direct: {enabled: false}}\n";
    let error = chosen(off, 256, Operation::AllToAll).unwrap_err();
    assert!(matches!(error, DistError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("ring: all_to_all is not supported"), "{error}");
}

#[test]
fn a_front_brings_algorithms_of_its_own() {
    let find = |module: &str| match module {
        "my_ring" => Some(Ok(Rc::new(Ring) as Rc<dyn Algorithm>)),
        "broken" => Some(Err("a module with `kernel`".to_owned())),
        _ => None,
    };
    let read = |module: &str| {
        let text =
            format!("defaults: {{algorithm: mine}}\nalgorithms:\n  mine:\n    module: {module}\n");
        CclConfig::read_with("mine.yaml", &text, &find)
    };
    let config = read("my_ring").unwrap();
    let resolved = config.resolve(&Topology::embedded(), ALL_REDUCE, DType::F32, 1 << 20).unwrap();
    assert_eq!((&*resolved.name, resolved.algorithm.name()), ("mine", "ring"));
    // A registered name takes precedence over the front's algorithms.
    assert_eq!(read("tree").unwrap().named("mine").unwrap().module.name(), "tree");
    let broken =
        "mine.yaml:4: algorithms.mine.module: expected a module with `kernel`, found broken";
    assert_eq!(read("broken").unwrap_err().to_string(), broken);
    let unknown = read("nobody").unwrap_err().to_string();
    assert!(unknown.contains("expected one of direct, ring, grid"), "{unknown}");
}
