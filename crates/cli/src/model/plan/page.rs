//! Reports of plans as an HTML page.

use cubeyard_bench::report::Answer;
use cubeyard_draw::{header, page, section, tile, tiles};

use super::{Planned, table};
use crate::page::list;

/// Draws the plans of a search, the stages of the plan and their boundaries; an answer comes first.
pub(in crate::model) fn page_of(planned: &Planned, answer: Option<&Answer>) -> String {
    let (name, report) = (&planned.measure.spec.name, &planned.report);
    let [work, model] = table::summary(planned);
    let own = table::verdict(planned);
    let verdict = answer.map_or_else(|| own.clone(), |it| format!("{own}\n{}", it.verdict));
    let figures: String =
        table::totals(report).into_iter().map(|(name, figure)| tile(name, &figure, "")).collect();
    let plans = planned.search.as_ref().map(|search| table::plans(search).html("Plans"));
    let boundaries = (!report.boundaries.is_empty())
        .then(|| table::boundaries(report).html("Transfers of a step"));
    let notes = table::notes(planned);
    let main = [
        header(name, &format!("{work}: {model}"), &verdict),
        tiles(&figures),
        answer.map(|answer| answer.section.clone()).unwrap_or_default(),
        section("Plans", &plans.unwrap_or_default()),
        section("Stages", &table::stages(report).html("Stages of a replica")),
        section("Boundaries", &boundaries.unwrap_or_default()),
        section("Parts", &table::path(report).html("Parts of a step, all stages")),
        section("Notes", &list(notes.iter().map(String::as_str))),
    ];
    page(name, "", &main.concat(), "")
}
