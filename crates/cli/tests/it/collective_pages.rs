//! What `docs/collectives.md` shows of `cubeyard ccl` is what it prints.

use serde_json::Value;

use crate::Sandbox;

const PAGE: &str = include_str!("../../../../docs/collectives.md");

/// The arguments of a row, and its other cells.
fn rows() -> Vec<(Vec<&'static str>, Vec<&'static str>)> {
    let row = |line: &'static str| {
        let (command, cells) = line.strip_prefix("| `ccl ")?.split_once("` |")?;
        let cells = cells.trim_matches('|').split('|').map(str::trim).collect();
        Some((command.split(' ').collect(), cells))
    };
    PAGE.lines().filter_map(row).collect()
}

/// What the cell of a size must say: the quickest, its time and its share of the bound, and what `lrab` takes.
fn cell(rows: &[&Value]) -> String {
    let time = |row: &Value| row["time_us"].as_f64().unwrap();
    let best = rows.iter().min_by(|a, b| time(a).total_cmp(&time(b))).unwrap();
    let lrab = rows.iter().find(|row| row["algorithm"] == "lrab").unwrap();
    let (name, share) =
        (best["algorithm"].as_str().unwrap(), best["share_of_bound"].as_f64().unwrap());
    format!("{name} {:.2}, {:.0} % ({:.2})", time(best), share * 100.0, time(lrab))
}

/// Those of two SIPs, and one of their cubes, which take longer; the others take longer still.
#[test]
fn rows_of_the_page_are_what_the_command_gives() {
    let all = rows();
    assert_eq!(all.len(), 30, "ring, torus and mesh of five sizes, ranks are SIPs and cubes");
    let sandbox = Sandbox::new("collective-pages");
    let of_two = all.iter().filter(|(command, _)| command[..2] == ["--sips", "2"]);
    let is_held = |command: &[&str]| !command.contains(&"cube") || command.contains(&"torus_2d");
    let held: Vec<_> = of_two.filter(|(command, _)| is_held(command)).collect();
    assert_eq!(held.len(), 4);
    for (command, cells) in held {
        let sizes = if command.contains(&"cube") { "64K" } else { "4K:1M:16" };
        let more = ["--sizes", sizes, "--format", "json"];
        let run = sandbox.run(&[&["ccl"], &command[..], &more].concat()).result();
        let sweep: Value = serde_json::from_str(&run).unwrap();
        assert_eq!(sweep["right"], true, "{command:?}");
        let rows: Vec<_> = sweep["rows"].as_array().unwrap().iter().collect();
        let sizes = rows.chunk_by(|a, b| a["bytes"] == b["bytes"]);
        assert_eq!(cells, &sizes.map(cell).collect::<Vec<_>>(), "{command:?}");
    }
}
