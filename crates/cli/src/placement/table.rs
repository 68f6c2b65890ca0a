//! Placements as text.

use cubeyard_runtime::placement::{Layout, Shard, holders};

use crate::grid::{BOLD, bytes, paint, table};

/// Maximum number of parts that are listed.
const MOST: usize = 128;

/// Formats a line for each part, then the totals.
pub(super) fn render(layout: &Layout, colours: bool) -> String {
    let [sip, cube, pe] = layout.splits();
    let (shape, dtype, nbytes) = (layout.shape(), layout.dtype(), bytes(layout.nbytes()));
    let title = format!("{shape} {dtype}, {nbytes}: SIPs {sip}, cubes {cube}, PEs {pe}");
    let rows: Vec<_> = layout.parts().take(MOST).map(row).collect();
    let heading = ["held by", "rows", "columns", "offset", "bytes"];
    let parts = layout.parts().len();
    let mut text = format!("{}\n\n", paint(&title, BOLD, colours));
    text += &table(&heading, &rows, 1, colours);
    let left_out = match parts.saturating_sub(MOST) {
        0 => String::new(),
        more => format!("  and {more} more parts; --format json has all\n"),
    };
    text + &left_out + "\n" + &totals(layout)
}

fn row(copies: &[Shard]) -> Vec<String> {
    let Shard { rows, columns, offset_bytes, nbytes, .. } = &copies[0];
    vec![
        holders(copies),
        format!("{}..{}", rows.start, rows.end),
        format!("{}..{}", columns.start, columns.end),
        offset_bytes.to_string(),
        nbytes.to_string(),
    ]
}

fn totals(layout: &Layout) -> String {
    let parts = counted(layout.parts().len(), "part");
    let held = match layout.copies() {
        1 => format!("{parts}, held once"),
        copies if layout.parts().len() == 1 => format!("{parts}, held by {copies} PEs"),
        copies => format!("{parts}, each held by {copies} PEs"),
    };
    let (least, most) = layout.bytes_of_holders();
    let placed = layout.sips().len() * layout.cubes().len() * layout.placed_pes();
    let holding = layout.shards().len();
    let range =
        if least == most { bytes(most) } else { format!("{} to {}", bytes(least), bytes(most)) };
    let groups = layout.mapping_groups();
    let mappings: usize = groups.iter().map(|group| group.pes.len() * group.shards.len()).sum();
    format!(
        "{held}\n{holding} of {} hold {range} each\n{}, {} in all\n",
        counted(placed, "PE"),
        match groups.len() {
            1 => "all PEs of these cubes map the same shards".to_owned(),
            count => format!("{count} groups of PEs map different shards"),
        },
        counted(mappings, "mapping")
    )
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
