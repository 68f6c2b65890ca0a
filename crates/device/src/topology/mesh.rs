//! Routers of a cube, and routes between them.

use super::{Position, RoutersSpec, Side};

/// Returns whether there is a router at a position.
pub fn has(routers: &RoutersSpec, at: Position) -> bool {
    at.row < routers.rows
        && at.column < routers.columns
        && routers.removed.binary_search(&at).is_err()
}

/// Returns the index of a position in the grid, removed routers included.
pub(super) fn number(routers: &RoutersSpec, at: Position) -> usize {
    (at.row * routers.columns + at.column) as usize
}

/// Returns all routers, row by row.
pub fn all(routers: &RoutersSpec) -> impl Iterator<Item = Position> + '_ {
    let columns = move |row| (0..routers.columns).map(move |column| Position { row, column });
    (0..routers.rows).flat_map(columns).filter(|&at| has(routers, at))
}

/// Returns the position one step further; `None` beyond row or column 0.
pub fn step(at: Position, to: Side) -> Option<Position> {
    let Position { row, column } = at;
    match to {
        Side::North => Some(Position { row: row.checked_sub(1)?, column }),
        Side::East => Some(Position { row, column: column + 1 }),
        Side::South => Some(Position { row: row + 1, column }),
        Side::West => Some(Position { row, column: column.checked_sub(1)? }),
    }
}

/// Returns the neighbours of a router, in the order of their numbers.
fn neighbours(routers: &RoutersSpec, at: Position) -> impl Iterator<Item = Position> + '_ {
    const BY_NUMBER: [Side; 4] = [Side::North, Side::West, Side::East, Side::South];
    BY_NUMBER.into_iter().filter_map(move |to| step(at, to)).filter(|&next| has(routers, next))
}

/// Returns the routers after `from` on the route to `to`, `to` included. The route goes along the row, then along the
/// column. If that crosses a removed router, it goes along the column first. If that does too, it is a shortest path;
/// ties go to the lower-numbered router.
pub(super) fn path(routers: &RoutersSpec, from: Position, to: Position) -> Vec<Position> {
    let row_first = corner(from, Position { row: from.row, column: to.column }, to);
    let column_first = corner(from, Position { row: to.row, column: from.column }, to);
    let is_whole = |path: &Vec<Position>| path.iter().all(|&at| has(routers, at));
    [row_first, column_first]
        .into_iter()
        .find(is_whole)
        .unwrap_or_else(|| shortest(routers, from, to))
}

fn corner(from: Position, corner: Position, to: Position) -> Vec<Position> {
    let mut path = Vec::new();
    let mut at = from;
    for goal in [corner, to] {
        while at != goal {
            at.row = towards(at.row, goal.row);
            at.column = towards(at.column, goal.column);
            path.push(at);
        }
    }
    path
}

fn towards(from: u32, to: u32) -> u32 {
    match from.cmp(&to) {
        std::cmp::Ordering::Less => from + 1,
        std::cmp::Ordering::Equal => from,
        std::cmp::Ordering::Greater => from - 1,
    }
}

fn shortest(routers: &RoutersSpec, from: Position, to: Position) -> Vec<Position> {
    let distances = distances(routers, to);
    let distance = |at| distances[number(routers, at)];
    let mut path = Vec::new();
    let mut at = from;
    while at != to {
        let nearer = neighbours(routers, at).find(|&next| distance(next) < distance(at));
        at = nearer.expect("checked when read: every router reaches every other");
        path.push(at);
    }
    path
}

/// Returns the distance of each position from `to`, in links; `u32::MAX` if `to` cannot be reached.
fn distances(routers: &RoutersSpec, to: Position) -> Vec<u32> {
    let mut distances = vec![u32::MAX; (routers.rows * routers.columns) as usize];
    distances[number(routers, to)] = 0;
    let mut reached = vec![to];
    let mut next = 0;
    while let Some(&at) = reached.get(next) {
        next += 1;
        let distance = distances[number(routers, at)] + 1;
        for neighbour in neighbours(routers, at) {
            let known = &mut distances[number(routers, neighbour)];
            if *known == u32::MAX {
                *known = distance;
                reached.push(neighbour);
            }
        }
    }
    distances
}

/// Returns a router that cannot be reached from the first one; `Some(None)` if there is no router at all.
#[expect(clippy::option_option, reason = "private, with one caller that tells both apart")]
pub(super) fn cut_off(routers: &RoutersSpec) -> Option<Option<Position>> {
    let Some(first) = all(routers).next() else {
        return Some(None);
    };
    let distances = distances(routers, first);
    all(routers).find(|&at| distances[number(routers, at)] == u32::MAX).map(Some)
}
