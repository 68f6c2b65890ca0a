//! Colours of policies, the same on every chart.

use crate::{POLICIES, Row};
use cubeyard_draw::svg::COLOURS;

/// Colours after those of all charts, without the grey of the live bytes. They differ from each other and from the
/// first six for readers with any kind of colour vision (Paul Tol's muted scheme).
const MORE: [&str; 6] = ["#882255", "#332288", "#999933", "#117733", "#44aa99", "#661100"];
/// Number of colours of all charts that are used.
const FIRST: usize = 6;

/// Returns the colour of a policy: by its place in [`POLICIES`]. Policies of a front end follow, by name.
pub(super) fn of(name: &str, rows: &[Row]) -> &'static str {
    let known = POLICIES.iter().position(|policy| policy.name == name);
    let place = known.unwrap_or_else(|| {
        let is_known = |name: &str| POLICIES.iter().any(|policy| policy.name == name);
        let before = |row: &&Row| row.policy.name < name && !is_known(row.policy.name);
        POLICIES.len() + rows.iter().filter(before).count()
    });
    let all = FIRST + MORE.len();
    match place % all {
        first @ ..FIRST => COLOURS[first],
        more => MORE[more - FIRST],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_policy_has_a_colour_of_its_own() {
        let colours: BTreeSet<_> = POLICIES.iter().map(|policy| of(policy.name, &[])).collect();
        assert_eq!(colours.len(), POLICIES.len());
        assert!(!colours.contains(of("made-up", &[])));
    }
}
