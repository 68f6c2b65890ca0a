//! Sweeps as text: a row for each size and algorithm, the bound, and the quickest algorithm by size.

use std::fmt::Write as _;

use cubeyard_collectives::collective::Operation;
use cubeyard_collectives::distributed::sweep::{Figures, Row, Sweep, Winner};
use cubeyard_units::text::percent_column;

use crate::grid::{BOLD, DIM, GREEN, RED, bytes, paint, table};

const HEADING: [&str; 11] = [
    "algorithm",
    "size B",
    "count",
    "type",
    "redop",
    "root",
    "time µs",
    "algbw GB/s",
    "busbw GB/s",
    "of bound",
    "#wrong",
];

pub(crate) fn render(sweep: &Sweep, colours: bool) -> String {
    let mut text = head(sweep, colours) + "\n";
    let rows: Vec<_> = sweep.rows.iter().map(|row| cells(sweep, row)).collect();
    text += &table(&HEADING, &rows, 1, colours);
    text += &failures(sweep, colours);
    text.push('\n');
    for winner in sweep.winners() {
        text += &won(&winner);
    }
    if let Some(bound) = &sweep.bound {
        let bus = bound.bus / 1e9;
        let _ = writeln!(text, "  bound    {bus:.1} GB/s of bus bandwidth by {bound}");
    }
    for (name, why) in &sweep.refused {
        let _ = writeln!(text, "  left out {name}: {why}");
    }
    text + &verdict(sweep, colours)
}

fn head(sweep: &Sweep, colours: bool) -> String {
    let (world, positions) = (sweep.map.world(), sweep.map.positions());
    let grid: Vec<_> = world.grid.iter().map(ToString::to_string).collect();
    let title = paint(&sweep.operation.to_string(), BOLD, colours);
    let (ranks, kind) = (world.ranks, sweep.ranks.kind());
    format!("{title}: {ranks} {kind} of {positions} PEs each, grid {}\n", grid.join("×"))
}

/// Returns the reduction operator and the root of an operation, as nccl-tests print them.
fn redop(operation: Operation) -> (&'static str, String) {
    match operation {
        Operation::AllReduce(op) | Operation::ReduceScatter(op) => (op.name(), "-1".to_owned()),
        Operation::Reduce(op, root) => (op.name(), root.to_string()),
        Operation::Broadcast(root) | Operation::Gather(root) | Operation::Scatter(root) => {
            ("none", root.to_string())
        }
        Operation::AllGather | Operation::AllToAll => ("none", "-1".to_owned()),
    }
}

fn cells(sweep: &Sweep, row: &Row) -> Vec<String> {
    let (op, root) = redop(sweep.operation);
    let known = [row.algorithm.clone(), row.bytes.to_string(), row.count.to_string()];
    let known = known.into_iter().chain([sweep.dtype.to_string(), op.to_owned(), root]);
    let measured = row
        .figures
        .as_ref()
        .map_or_else(|_| ["failed", "–", "–", "–", "–"].map(ToOwned::to_owned), figures);
    known.chain(measured).collect()
}

fn figures(figures: &Figures) -> [String; 5] {
    [
        format!("{:.3}", figures.time.ns() / 1e3),
        format!("{:.2}", figures.algorithm_bandwidth / 1e9),
        format!("{:.2}", figures.bus_bandwidth / 1e9),
        figures.share.map_or_else(|| "–".to_owned(), percent_column),
        figures.wrong.map_or_else(|| "N/A".to_owned(), |wrong| wrong.to_string()),
    ]
}

fn failures(sweep: &Sweep, colours: bool) -> String {
    let failed = sweep.rows.iter().filter_map(|row| Some((row, row.figures.as_ref().err()?)));
    let line = |(row, why): (&Row, &String)| {
        let name = format!("  {} of {}: {why}\n", row.algorithm, bytes(row.bytes));
        paint(&name, DIM, colours)
    };
    failed.map(line).collect()
}

fn won(winner: &Winner) -> String {
    let Winner { algorithm, from, to } = winner;
    let (from, to) = (bytes(*from), bytes(*to));
    if from == to {
        return format!("  quickest {algorithm} for {from}\n");
    }
    format!("  quickest {algorithm} from {from} to {to}\n")
}

/// Formats the number of checked rows, as in `6 rows passed, 12 not checked (no data; --data checks all)`.
fn passed(sweep: &Sweep, rows: usize) -> String {
    let many = |count: usize| if count == 1 { "row" } else { "rows" };
    let unchecked = |row: &&Row| row.figures.as_ref().is_ok_and(|it| it.wrong.is_none());
    let rest = match sweep.rows.iter().filter(unchecked).count() {
        0 => String::new(),
        rest => format!(", {rest} not checked (no data; --data checks all)"),
    };
    format!("{rows} {} passed{rest}", many(rows))
}

fn verdict(sweep: &Sweep, colours: bool) -> String {
    let checked = sweep.rows.iter().filter_map(|row| row.figures.as_ref().ok()?.wrong);
    let (rows, wrong) = checked.fold((0, 0), |(rows, all), wrong| (rows + 1, all + wrong));
    let text = match (rows, wrong) {
        (0, _) => paint("no number computed; --data checks all", DIM, colours),
        (rows, 0) => paint(&passed(sweep, rows), GREEN, colours),
        (_, wrong) => paint(&format!("{wrong} numbers are wrong"), RED, colours),
    };
    format!("  check    {text}\n")
}
