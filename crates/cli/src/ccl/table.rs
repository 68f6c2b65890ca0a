//! Text output of sweeps: a row for each size and algorithm, the bound, and the fastest algorithm for each size.

use cubeyard_study::collectives::{Figures, ResultCheck, Row, Sweep, SweepConfig, Winner};
use cubeyard_units::text::percent_column;

use crate::grid::{BOLD, DIM, GREEN, RED, bytes, line, paint, table, wrapped};
use crate::terminal::{self, OutputOptions};

const HEADING: [&str; 7] =
    ["algorithm", "size B", "time µs", "algbw GB/s", "busbw GB/s", "of bound", "#wrong"];

pub(crate) fn render(sweep: &Sweep, colours: bool) -> String {
    let mut text = head(sweep, colours) + "\n";
    let rows: Vec<_> = sweep.rows.iter().map(cells).collect();
    text += &table(&HEADING, &rows, 1, colours);
    text + &end(sweep, colours)
}

/// Formats what follows the rows.
fn end(sweep: &Sweep, colours: bool) -> String {
    failures(sweep, colours) + "\n" + &summary(sweep, colours)
}

fn summary(sweep: &Sweep, colours: bool) -> String {
    let mut text = String::new();
    for winner in sweep.winners() {
        text += &won(&winner);
    }
    if let Some(bound) = &sweep.bound {
        let bus = bound.bus / 1e9;
        let line = format!("bound    {bus:.1} GB/s of bus bandwidth by {bound}");
        text += &wrapped(&line, [2, 11]);
    }
    for (name, why) in &sweep.refused {
        text += &wrapped(&format!("left out {name}: {why}"), [2, 11]);
    }
    text + &verdict(sweep, colours)
}

/// Table whose rows are printed as they are measured, also into a pipe. Each column has the width of its widest possible
/// cell, where that is known in advance.
#[derive(Debug)]
pub(super) struct Stream {
    widths: Vec<usize>,
    is_text: bool,
    colours: bool,
}

impl Stream {
    pub(super) fn new(config: &SweepConfig, options: OutputOptions) -> Self {
        let mut widths: Vec<_> = HEADING.iter().map(|cell| cell.chars().count()).collect();
        let names = config.ccl.algorithms.iter().map(|it| it.name.chars().count());
        widths[0] = names.chain([widths[0]]).max().unwrap_or_default();
        let digits = config.sizes.iter().max().map_or(1, |size| size.to_string().len());
        widths[1] = widths[1].max(digits);
        widths[2] = widths[2].max("12345.678".len());
        Self { widths, is_text: options.is_text(), colours: terminal::colours() }
    }

    /// Prints the last row of a sweep, after the title and the heading if it is the first.
    pub(super) fn row(&self, sweep: &Sweep) {
        if self.is_text {
            // The reader may be gone; the end of the command reports other errors.
            let _ = terminal::print(&self.lines(sweep));
        }
    }

    fn lines(&self, sweep: &Sweep) -> String {
        let row = sweep.rows.last().map(|row| line(&cells(row), &self.widths, 1) + "\n");
        let row = row.unwrap_or_default();
        if sweep.rows.len() > 1 {
            return row;
        }
        let heading = line(&HEADING.map(ToOwned::to_owned), &self.widths, 1);
        let heading = paint(&heading, DIM, self.colours);
        format!("{}\n{heading}\n{row}", head(sweep, self.colours))
    }

    /// Returns the text below the rows.
    pub(super) fn end(&self, sweep: &Sweep) -> String {
        end(sweep, self.colours)
    }
}

fn head(sweep: &Sweep, colours: bool) -> String {
    let (world, positions) = (sweep.map.world(), sweep.map.positions());
    let grid: Vec<_> = world.grid.iter().map(ToString::to_string).collect();
    let title = format!("{} of {} ({} B each)", sweep.operation, sweep.dtype, sweep.dtype.size());
    let title = paint(&title, BOLD, colours);
    let (ranks, kind) = (world.ranks, sweep.ranks.kind());
    format!("{title}: {ranks} {kind} of {positions} PEs each, grid {}\n", grid.join("×"))
}

fn cells(row: &Row) -> Vec<String> {
    let known = [row.algorithm.clone(), row.bytes.to_string()];
    let measured = row
        .figures
        .as_ref()
        .map_or_else(|_| ["failed", "–", "–", "–", "–"].map(ToOwned::to_owned), figures);
    known.into_iter().chain(measured).collect()
}

fn figures(figures: &Figures) -> [String; 5] {
    [
        format!("{:.3}", figures.time.ns() / 1e3),
        format!("{:.2}", figures.algorithm_bandwidth / 1e9),
        format!("{:.2}", figures.bus_bandwidth / 1e9),
        figures.share.map_or_else(|| "–".to_owned(), percent_column),
        figures.check.map_or_else(|| "N/A".to_owned(), |check| check.wrong.to_string()),
    ]
}

fn failures(sweep: &Sweep, colours: bool) -> String {
    let failed = sweep.rows.iter().filter_map(|row| Some((row, row.figures.as_ref().err()?)));
    let line = |(row, why): (&Row, &String)| {
        let text = format!("{} of {}: {why}", row.algorithm, bytes(row.bytes));
        paint(&wrapped(&text, [2, 4]), DIM, colours)
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
    let unchecked = |row: &&Row| row.figures.as_ref().is_ok_and(|it| it.check.is_none());
    let rest = match sweep.rows.iter().filter(unchecked).count() {
        0 => String::new(),
        rest => format!(", {rest} not checked (no data; --data checks all)"),
    };
    format!("{rows} {} passed{}{rest}", many(rows), memories(sweep))
}

/// Formats the kinds of memory that held message slots when rows were checked again.
fn memories(sweep: &Sweep) -> String {
    let checks = || sweep.rows.iter().filter_map(|row| row.figures.as_ref().ok()?.check);
    let (all, done) = (3 * checks().count(), checks().map(|check| check.memories).sum::<u32>());
    match usize::try_from(done) {
        Ok(0) => String::new(),
        Ok(done) if done == all => ", also with slots in every memory beside traffic".to_owned(),
        _ => format!(", also in {done} of {all} slot memories beside traffic"),
    }
}

fn verdict(sweep: &Sweep, colours: bool) -> String {
    let checks = || sweep.rows.iter().filter_map(|row| row.figures.as_ref().ok()?.check);
    let sum = |count: fn(ResultCheck) -> u64| checks().map(count).sum::<u64>();
    let (rows, wrong) = (checks().count(), sum(|check| check.wrong));
    let text = match (rows, wrong, sum(|check| check.differing)) {
        (0, ..) => paint("no number computed; --data checks all", DIM, colours),
        (rows, 0, 0) => paint(&passed(sweep, rows), GREEN, colours),
        (_, wrong, 0) => paint(&format!("{wrong} numbers are wrong"), RED, colours),
        (_, wrong, differing) => {
            let text = format!("{wrong} numbers are wrong; {differing} differ between ranks");
            paint(&text, RED, colours)
        }
    };
    format!("  check    {text}\n")
}
