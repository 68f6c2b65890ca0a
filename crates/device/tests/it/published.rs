//! Published figures of this machine, and bugs of its first model.

use cubeyard_device::message::Direction::{Read, Write};
use cubeyard_device::request::Request;

use crate::bench::{KIB, dma, makespan_ns, shard};

/// Checks that a figure is within 2 % of the published one.
fn near(ours: f64, published: f64) {
    let off = (ours / published - 1.0).abs();
    assert!(off < 0.02, "{ours} ns, published {published} ns: {:.2} % off", off * 100.0);
}

#[test]
fn a_pe_reads_and_writes_its_own_hbm() {
    for direction in [Read, Write] {
        for (kib, published) in [(16, 77.0), (32, 141.0)] {
            let ours = makespan_ns(|machine| {
                vec![dma(machine, "sip0.cube0.pe0", "sip0.cube0.pe0", direction, kib * KIB)]
            });
            near(ours, published);
        }
    }
}

#[test]
fn one_two_and_three_pes_read_a_hot_target() {
    for (issuers, published) in [(1, 82.0), (2, 158.0), (3, 230.0)] {
        let ours = makespan_ns(|machine| {
            let read =
                |pe| dma(machine, &format!("sip0.cube0.pe{pe}"), "sip0.cube0.pe0", Write, 16 * KIB);
            (1..=issuers).map(read).collect()
        });
        near(ours, published);
    }
}

#[test]
fn eight_pes_read_from_the_next_cube() {
    let ours = makespan_ns(|machine| {
        let read = |pe| {
            let (from, to) = (format!("sip0.cube0.pe{pe}"), format!("sip0.cube1.pe{pe}"));
            dma(machine, &from, &to, Read, 16 * KIB)
        };
        (0..8).map(read).collect()
    });
    near(ours, 963.0);
}

#[test]
fn the_farthest_cube_and_another_sip() {
    for (to, published) in [("sip0.cube15.pe7", 573.0), ("sip1.cube0.pe0", 409.0)] {
        let ours = makespan_ns(|machine| vec![dma(machine, "sip0.cube0.pe0", to, Read, 16 * KIB)]);
        near(ours, published);
    }
}

/// The ports of a link were once the same queue, and half of the flits skipped the link's bandwidth: this
/// gave 273 ns. Before that, slow links were counted twice.
#[test]
fn a_host_write_pays_the_slowest_link_once_for_every_flit() {
    let ours = makespan_ns(|machine| {
        vec![Request::MemoryWrite(shard(machine, "sip0.cube0.pe0", 64 * KIB))]
    });
    near(ours, 545.0);
    assert!(ours > 512.0, "64 KiB at 128 GB/s take 512 ns alone");
}

/// All PEs of a cube once shared one controller's 256 GB/s.
#[test]
fn each_pe_has_its_own_hbm_bandwidth() {
    let all = |pes| {
        makespan_ns(|machine| {
            let read = |pe| {
                let pe = format!("sip0.cube0.pe{pe}");
                dma(machine, &pe, &pe, Read, 64 * KIB)
            };
            (0..pes).map(read).collect()
        })
    };
    assert!((all(8) - all(1)).abs() < f64::EPSILON);
}

/// A port of the cube was once a shortcut of zero length from one half of the cube to the other.
#[test]
fn traffic_inside_a_cube_takes_longer_the_farther_it_goes() {
    let read =
        |to: &str| makespan_ns(|machine| vec![dma(machine, "sip0.cube0.pe0", to, Read, 32 * KIB)]);
    let local = read("sip0.cube0.pe0");
    let same_half = read("sip0.cube0.pe1");
    let cross_half = read("sip0.cube0.pe7");
    let next_cube = read("sip0.cube1.pe0");
    assert!(local < same_half && same_half < cross_half && cross_half < next_cube);
}
