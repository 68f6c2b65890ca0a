//! What the README and `docs/kernels.md` show of `cubeyard run` is what it prints and draws.

use expect_test::expect_file;
use serde_json::Value;

use crate::Sandbox;

const PAGE: &str = include_str!("../../../../docs/kernels.md");
const README: &str = include_str!("../../../../README.md");

/// Compares a block that begins with `$ cubeyard …` with what the command prints. A line `…` stands for any
/// number of lines.
fn check(sandbox: &Sandbox, block: &str) {
    let (command, shown) = block.split_once('\n').unwrap();
    let arguments: Vec<&str> = command.split_whitespace().skip(2).collect();
    let printed = sandbox.run(&arguments).result();
    let mut rest = printed.as_str();
    for (index, part) in shown.split("…\n").enumerate() {
        let at = rest.find(part).filter(|at| index > 0 || *at == 0);
        let at = at.unwrap_or_else(|| panic!("`{command}` prints\n{printed}\nand not\n{part}"));
        rest = &rest[at + part.len()..];
    }
    assert!(rest.is_empty() || shown.ends_with("…\n"), "`{command}` goes on:\n{rest}");
}

#[test]
fn pages_show_what_the_command_prints() {
    let sandbox = Sandbox::new("kernel-pages");
    for (page, least) in [(README, 1), (PAGE, 2)] {
        let blocks = page.split("```text\n$ cubeyard").skip(1);
        let blocks: Vec<_> = blocks.map(|rest| rest.split("```").next().unwrap()).collect();
        assert!(blocks.len() >= least, "{} blocks", blocks.len());
        blocks.iter().for_each(|block| check(&sandbox, &format!("$ cubeyard{block}")));
    }
}

#[test]
fn the_readme_s_table_is_what_every_bench_gives() {
    let sandbox = Sandbox::new("kernel-table");
    let list = sandbox.run(&["list", "--format", "json"]).result();
    let list: Value = serde_json::from_str(&list).unwrap();
    let list = list.as_array().unwrap();
    assert!(list.len() >= 10, "{list:?}");
    for bench in list {
        let name = bench["name"].as_str().unwrap();
        let start = format!("| `{name}` | ");
        let row = README.lines().find(|line| line.starts_with(&start));
        let cells: Vec<&str> =
            row.expect(name).trim_matches('|').split(" | ").map(str::trim).collect();
        let run = sandbox.run(&["run", name, "--data"]).result();
        assert!(run.contains(&format!("  kernel      {} on ", cells[2])), "{name}: {run}");
        assert!(run.contains("  check       passed: "), "{name}: {run}");
        assert!(run.contains(&format!("  limited by  {}", cells[4])), "{name}: {run}");
        let json = sandbox.run(&["run", name, "--data", "--format", "json"]).result();
        let json: Value = serde_json::from_str(&json).unwrap();
        let share = json["share_of_bound"].as_f64().unwrap();
        assert_eq!(cells[3], format!("{:.0} %", share * 100.0), "{name}");
    }
}

#[test]
fn the_page_s_tables_are_what_the_commands_give() {
    let sandbox = Sandbox::new("kernel-shapes");
    let rows: Vec<&str> =
        PAGE.lines().filter(|line| line.starts_with("| `run ") && line.contains(" % |")).collect();
    assert!(rows.len() > 15, "{}", rows.len());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let command: Vec<&str> = cells[0].trim_matches('`').split(' ').collect();
        let run = sandbox.run(&command).result();
        assert!(run.contains(&format!("  kernel      {} on ", cells[1])), "{row}\n{run}");
        assert!(run.contains(&format!("  limited by  {}", cells[4])), "{row}\n{run}");
        let json = sandbox.run(&[&command[..], &["--format", "json"]].concat()).result();
        let json: Value = serde_json::from_str(&json).unwrap();
        let share = json["share_of_bound"].as_f64().unwrap();
        assert_eq!(cells[3], format!("{:.0} %", share * 100.0), "{row}");
    }
}

/// The picture of a class in a page, to stand alone: with the page's style in it.
fn picture(page: &str, class: &str) -> String {
    let style = page.split("<style>\n").nth(1).unwrap().split("</style>").next().unwrap();
    let start = page.find(&format!("<svg class=\"{class}\"")).unwrap();
    let open = start + page[start..].find('>').unwrap() + 1;
    let mut depth = 1;
    let mut end = open;
    while depth > 0 {
        let next = end + page[end..].find("svg").unwrap();
        let before = &page[..next];
        depth += usize::from(before.ends_with('<'));
        depth -= usize::from(before.ends_with("</"));
        end = next + "svg".len();
    }
    let font = "svg{background:var(--panel);font-family:system-ui,'DejaVu Sans',sans-serif}\n";
    format!("{}\n<style>\n{style}{font}</style>{}>\n", &page[start..open], &page[open..end])
}

/// If this fails after a change to the pictures, look at them, then write them again:
/// `UPDATE_EXPECT=1 cargo test -p cubeyard-cli --test it pictures_of_kernels`.
#[test]
fn pictures_of_kernels_are_those_of_the_report() {
    let sandbox = Sandbox::new("kernel-pictures");
    let add = ["run", "vector-add", "--set", "pes=1", "--set", "elements=131072", "-q"];
    let product = ["run", "gemm", "-q"];
    sandbox.run(&[&add[..], &["--report", "add.html"]].concat()).result();
    sandbox.run(&[&product[..], &["--report", "product.html"]].concat()).result();
    let (add, product) = (sandbox.read("add.html"), sandbox.read("product.html"));
    let timeline = picture(&add, "timeline");
    assert!(roxmltree::Document::parse(&timeline).is_ok(), "{timeline}");
    expect_file!["../../../../docs/img/kernel-timeline.svg"].assert_eq(&timeline);
    expect_file!["../../../../docs/img/kernel-path.svg"].assert_eq(&picture(&add, "stack"));
    let roofline = picture(&product, "roofline");
    assert!(roxmltree::Document::parse(&roofline).is_ok(), "{roofline}");
    expect_file!["../../../../docs/img/kernel-roofline.svg"].assert_eq(&roofline);
}
