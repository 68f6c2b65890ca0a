//! `cubeyard validate`: the table, the JSON, and the exit codes.

use serde_json::Value;

use crate::{Run, Sandbox};

fn rows(run: Run) -> Vec<Value> {
    let rows: Value = serde_json::from_str(&run.result()).expect("it prints JSON");
    rows.as_array().expect("an array").clone()
}

#[test]
fn the_default_machine_passes_and_the_table_says_so() {
    let sandbox = Sandbox::new("validate-table");
    let run = sandbox.run(&["validate"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let line = |name: &str| run.stdout.lines().find(|line| line.contains(name)).expect(name);
    let words: Vec<_> = line("own HBM, read 16 KiB").split_whitespace().collect();
    assert_eq!(words.join(" "), "✓ own HBM, read 16 KiB 77 ns 77.02 ns +0.03 %");
    let above = run.stdout.lines().take_while(|line| !line.contains("own HBM, read 16 KiB")).last();
    assert_eq!(above, Some("  calibrated: kernbench2 a759d580, a76487ca (sources.md#pe-dma)"));
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{}", run.stdout);
    assert!(line("from pe1 to pe3").starts_with("✓ hot target pe0, write"));
    assert!(line("hot target pe0, read 16 KiB, from pe1 to pe3").starts_with("– "));
    assert!(run.stdout.contains("\n[1] "), "remarks are listed");
    let sum = run.stdout.lines().last().expect("a line");
    assert!(sum.contains(" our own arithmetic), 0 ✗ out of it, "), "{sum}");
    assert!(run.stdout.contains("\n  exact, own arithmetic: "), "own arithmetic");
    assert!(!sum.contains("left out"), "{sum}");
}

#[test]
fn json_has_every_field_of_every_row() {
    let rows = rows(Sandbox::new("validate-json").run(&["validate", "--format", "json"]));
    assert!(rows.len() > 90, "{}", rows.len());
    for row in &rows {
        for text in ["family", "name", "unit", "kind", "source", "relation"] {
            assert!(row[text].is_string(), "{text}: {row}");
        }
        for figure in ["expected", "ours", "deviation"] {
            assert!(row[figure].is_number(), "{figure}: {row}");
        }
        assert!(row["own"].is_boolean(), "{row}");
        let judged = row["kind"] != "indicative";
        assert_eq!(row["ok"], if judged { Value::Bool(true) } else { Value::Null }, "{row}");
        assert!(judged || row["reason"].is_string(), "{row}");
    }
    let ring = |row: &&Value| row["name"] == "ring of 16, 1 MiB from 1 to 4";
    let ring = rows.iter().find(ring).expect("a golden value");
    assert_eq!((&ring["expected"], &ring["ours"]), (&60_093.0.into(), &60_093.0.into()));
    let collectives = || rows.iter().filter(|row| row["family"] == "collectives");
    assert!(collectives().count() > 15, "{}", collectives().count());
    let lrab = collectives().find(|row| row["name"] == "lrab of 3x2 SIPs of 4x4 cubes, 64 KiB");
    assert_eq!(lrab.expect("a closed form")["kind"], "exact");
}

/// Published figures of the default machine are not checked on another machine.
#[test]
fn on_another_machine_published_figures_are_left_out() {
    let sandbox = Sandbox::new("validate-topology");
    sandbox.write("slow.yaml", "routers: {overhead_ns: 3}\ncubes: {w: 2, h: 1}\n");
    let run = sandbox.run(&["validate", "--topology", "slow.yaml"]);
    assert_eq!(run.code, Some(0));
    assert!(run.stderr.contains("checks of the default topology were left out"), "{}", run.stderr);
    assert!(run.stdout.contains("] the figure is for the default topology\n"), "{}", run.stdout);

    let quiet = ["validate", "--topology", "slow.yaml", "--format", "json", "--quiet"];
    let run = sandbox.run(&quiet);
    assert_eq!(run.stderr, "");
    let rows = rows(run);
    let (published, others): (Vec<_>, Vec<_>) =
        rows.iter().partition(|row| row["family"] == "published figures");
    assert!(published.len() > 15);
    for row in published {
        assert_eq!((&row["ours"], &row["ok"]), (&Value::Null, &Value::Null), "{row}");
        assert_eq!(row["reason"], "the figure is for the default topology");
    }
    let lone = |row: &&Value| row["family"] == "a lone transfer" && row["ok"] == true;
    assert!(others.into_iter().filter(lone).count() >= 7);
}

#[test]
fn bad_input_ends_with_2() {
    let sandbox = Sandbox::new("validate-bad");
    sandbox.write("bad.yaml", "routers: {overhed_ns: 3}\n");
    for file in ["bad.yaml", "missing.yaml"] {
        let run = sandbox.run(&["validate", "--topology", file]);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{file}");
        assert!(run.stderr.contains(file), "{}", run.stderr);
    }
    assert_eq!(sandbox.run(&["validate", "--format", "xml"]).code, Some(2));
}
