//! Sections of a page on the holders of memory: tables, flame graph and block maps.

use super::blocks;
use crate::holders::{NO_FRAME, outermost_first};
use crate::{Grouping, HOLDER_COLUMNS, Held, LEAST_COLUMNS, MemoryUse, Report, Row};
use cubeyard_draw::flame::{Node, flame};
use cubeyard_draw::svg::colour;
use cubeyard_draw::xml::escape;
use cubeyard_draw::{captioned, cell, number, remark};
use cubeyard_units::text::percent;

/// Number of holders in a table.
const HOLDERS: usize = 20;
/// Number of holders with a distinct colour; other holders are grey.
const COLOURED: usize = 6;
const GREY: &str = "#9aa4af";

/// Draws the memory sections of one report.
pub(super) fn sections(report: &Report) -> String {
    let moments = [&report.peak, &report.at_failure].into_iter().flatten();
    let moments: String = moments.map(moment).collect();
    format!("{}{moments}{}", least(report), maps(report))
}

fn least(report: &Report) -> String {
    let rows: String =
        report.rows.iter().filter_map(Row::least_cells).map(|row| cells(&row)).collect();
    if rows.is_empty() {
        return String::new();
    }
    let title = "Least memory in which it runs";
    let table = captioned("least", title, &head(&LEAST_COLUMNS), &rows);
    let remark = remark(&format!(
        "With a limit, an allocator gives its cache back and tries again. Limits were tried in steps of \
         2 MiB. {}",
        report.least_remark().unwrap_or_default()
    ));
    format!("<h3>{title}</h3>\n{table}{remark}")
}

fn moment(found: &MemoryUse) -> String {
    let holders = found.holders(Grouping::Frame, false);
    let rows = holders.iter().take(HOLDERS).map(|holder| {
        let [figures @ .., name] = found.cells(holder);
        let figures: String = figures.iter().map(|figure| number(figure)).collect();
        let stack = escape(&holder.stack.join(" → "));
        format!("<tr>{figures}<td title=\"{stack}\">{}</td></tr>\n", escape(&name))
    });
    let [figures @ .., name] = HOLDER_COLUMNS;
    let figures = figures.map(|figure| format!("<th class=\"n\">{figure}</th>")).concat();
    let name = if found.has_frames() { name } else { "size of each" };
    let mut heading = found.heading();
    heading[..1].make_ascii_uppercase();
    let columns = format!("{figures}<th>{name}</th>");
    let table = captioned("holders", &heading, &columns, &rows.collect::<String>());
    let request = found.request(false).map(|it| format!("<p>{}.</p>\n", escape(&it)));
    format!(
        "<h3>{}</h3>\n{}{table}{}{}",
        escape(&heading),
        request.unwrap_or_default(),
        parts(found),
        graph(found)
    )
}

fn parts(found: &MemoryUse) -> String {
    let row = |part: crate::UseLine| {
        let remark = cell(&part.remark);
        format!("<tr>{}{}{remark}</tr>\n", cell(&part.name), number(&part.bytes.to_string()))
    };
    let rows: String = found.parts(false).map(row).concat();
    let columns = "<th>memory</th><th class=\"n\">bytes</th><th>remark</th>";
    captioned("parts", &format!("Memory of PyTorch, {}", found.heading()), columns, &rows)
}

/// Draws the flame graph, if the recording has call stacks.
fn graph(found: &MemoryUse) -> String {
    if !found.has_frames() {
        return String::new();
    }
    flame(&found.heading(), &tree(found))
}

/// Returns the live bytes as a tree of frames, outermost first.
pub(super) fn tree(found: &MemoryUse) -> Node {
    let Held { live, groups, .. } = &found.held;
    let mut root = Node { name: format!("all {live}"), colour: GREY, ..Node::default() };
    for group in groups {
        let frames = outermost_first(group.site, &found.stacks, false);
        let mut path: Vec<_> = frames.map(|frame| (frame.short(), frame.long())).collect();
        if path.is_empty() {
            path.push((NO_FRAME.to_owned(), NO_FRAME.to_owned()));
        }
        add(&mut root, &path, group.bytes.get());
    }
    finish(&mut root, live.get());
    root
}

fn add(node: &mut Node, path: &[(String, String)], bytes: u64) {
    node.weight = node.weight.saturating_add(bytes);
    let Some(((short, long), rest)) = path.split_first() else { return };
    let place = node.children.iter().position(|child| child.description == *long);
    let place = place.unwrap_or_else(|| {
        let (name, description) = (short.clone(), long.clone());
        let index = if long.contains("site-packages/") { 5 } else { 4 };
        node.children.push(Node { name, description, colour: colour(index), ..Node::default() });
        node.children.len() - 1
    });
    add(&mut node.children[place], rest, bytes);
}

/// Sorts boxes by weight, and adds the bytes to their descriptions.
fn finish(node: &mut Node, live: u64) {
    let share = percent(node.weight as f64 / live.max(1) as f64);
    let bytes = cubeyard_units::text::bytes(node.weight);
    let place = if node.description.is_empty() { "all" } else { &node.description };
    node.description = format!("{place}: {bytes}, {share}");
    node.children.sort_by(|left, right| {
        right.weight.cmp(&left.weight).then_with(|| left.name.cmp(&right.name))
    });
    node.children.iter_mut().for_each(|child| finish(child, live));
}

/// Draws the block maps, if the report has them.
fn maps(report: &Report) -> String {
    if report.maps.is_empty() {
        return String::new();
    }
    let peak = report.peak.as_ref().filter(|peak| peak.has_frames());
    let holders = peak.map(|peak| peak.holders(Grouping::Frame, false)).unwrap_or_default();
    let fill = |name: &str| {
        let rank = holders.iter().take(COLOURED).position(|holder| holder.name == name);
        rank.map_or(if holders.is_empty() { colour(1) } else { GREY }, colour)
    };
    let legend = holders.iter().take(COLOURED).enumerate().map(|(rank, holder)| {
        format!("<span style=\"color:{}\">■</span> {} ", colour(rank), escape(&holder.name))
    });
    let others = format!("<span style=\"color:{GREY}\">■</span> others");
    let legend: String = legend.chain((!holders.is_empty()).then_some(others)).collect();
    let figure = blocks::figure(&report.maps, &fill);
    format!("<h3>Blocks over time</h3>\n<p class=\"remark\">{legend}</p>\n{figure}")
}

/// Returns the table header: one column of names, then columns of numbers.
pub(super) fn head(columns: &[&str; 6]) -> String {
    let [first, figures @ ..] = columns;
    let figures = figures.map(|name| format!("<th class=\"n\">{name}</th>")).concat();
    format!("<th>{first}</th>{figures}")
}

fn cells([first, figures @ ..]: &[String; 6]) -> String {
    let figures: String = figures.iter().map(|figure| number(figure)).collect();
    format!("<tr>{}{figures}</tr>\n", cell(first))
}
