//! Any text as a pattern is either refused with an error or run.

use cubeyard_device::machine::Machine;
use cubeyard_device::probe::Pattern;
use cubeyard_device::topology::Topology;
use proptest::prelude::*;

fn small() -> Topology {
    Topology::read("small.yaml", "sips: {count: 1}\ncubes: {w: 2, h: 1}\n").unwrap()
}

/// Draws a value that is often valid.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec![
            "read", "write", "host", "sip0.cube0.pe0", "sip0.cube1.pe7.hbm", "sip0.cube0.pe3.hbm",
            "sip0.cube1.sram", "sip0.cube0.m_cpu", "sip0.cube0.r0c0", "sip0.io0.pcie_ep", "0", "1",
            "256", "4 KiB", "6 GiB", "18446744073709551615", "-1", "1e9", "0.5", "nan", "", "[]", "{}",
        ]).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

/// Draws a transfer with occasionally missing, duplicate or unknown keys.
fn transfer() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec!["op", "from", "to", "bytes", "at_ns", "offset", "size"]);
    let changes = prop::collection::vec((key, value()), 0..4);
    (prop::bool::weighted(0.9), changes).prop_map(|(whole, changes)| {
        let mut fields: Vec<(&str, String)> = Vec::new();
        if whole {
            let usual = [("op", "write"), ("from", "host"), ("to", "sip0.cube0.pe0.hbm")];
            fields.extend(usual.map(|(key, value)| (key, value.to_owned())));
            fields.push(("bytes", "300".to_owned()));
        }
        for (key, value) in changes {
            fields.retain(|(other, _)| *other != key);
            fields.push((key, value));
        }
        let fields: Vec<_> = fields.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        format!("  - {{{}}}\n", fields.join(", "))
    })
}

/// Reads a pattern, and runs it if it is valid and small.
fn check(bytes: &[u8]) -> bool {
    let topology = small();
    match Pattern::read("any", bytes, &topology) {
        Err(error) => {
            let message = error.to_string();
            assert!(message.starts_with("any:") && message.len() < 10_000, "{message}");
            false
        }
        Ok(pattern) => {
            let much: u64 = pattern.transfers().iter().map(|transfer| transfer.bytes).sum();
            if much < 1 << 20 {
                let report = pattern.run(&mut Machine::new(topology)).unwrap();
                assert_eq!(report.transfers.len(), pattern.transfers().len());
            }
            true
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_refused_or_run(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check(&bytes);
    }

    #[test]
    fn any_text_is_refused_or_run(text in any::<String>()) {
        check(text.as_bytes());
        check(format!("transfers:\n  - {text}\n").as_bytes());
    }

    #[test]
    fn transfers_that_are_nearly_right_are_refused_or_run(
        transfers in prop::collection::vec(transfer(), 0..4),
    ) {
        check(format!("transfers:\n{}", transfers.concat()).as_bytes());
    }
}

/// The property above is not vacuous: patterns of valid fields are run.
#[test]
fn the_usual_transfer_is_run() {
    let usual = "op: write, from: host, to: sip0.cube0.pe0.hbm, bytes: 300";
    assert!(check(format!("transfers:\n  - {{{usual}}}\n").as_bytes()));
}
