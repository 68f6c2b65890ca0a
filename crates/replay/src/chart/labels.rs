//! Labels beside the ends of lines, moved apart where they would overlap.

/// Moves heights apart until any two are `gap` from each other, as little as it takes, between `top`
/// and `bottom` while there is room. Equal heights keep their order.
pub(super) fn spread(heights: &[f64], gap: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by(|&left, &right| heights[left].total_cmp(&heights[right]));
    let mut groups: Vec<Group> = Vec::new();
    for &place in &order {
        groups.push(Group { wanted: heights[place], count: 1 });
        join(&mut groups, gap, top, bottom);
    }
    let mut moved = vec![0.0; heights.len()];
    let mut order = order.into_iter();
    for group in groups {
        let start = group.start(gap, top, bottom);
        for (row, place) in order.by_ref().take(group.count).enumerate() {
            moved[place] = start + gap * row as f64;
        }
    }
    moved
}

/// Labels that touch, and stand around the mean of where they belong.
struct Group {
    wanted: f64,
    count: usize,
}

impl Group {
    fn start(&self, gap: f64, top: f64, bottom: f64) -> f64 {
        let extent = gap * (self.count - 1) as f64;
        (self.wanted - extent / 2.0).min(bottom - extent).max(top)
    }

    fn end(&self, gap: f64, top: f64, bottom: f64) -> f64 {
        self.start(gap, top, bottom) + gap * (self.count - 1) as f64
    }
}

/// Joins the last group with those before it that it overlaps.
fn join(groups: &mut Vec<Group>, gap: f64, top: f64, bottom: f64) {
    while let [.., before, last] = &groups[..]
        && before.end(gap, top, bottom) + gap > last.start(gap, top, bottom)
    {
        let count = before.count + last.count;
        let sum = before.wanted * before.count as f64 + last.wanted * last.count as f64;
        let joined = Group { wanted: sum / count as f64, count };
        groups.truncate(groups.len() - 2);
        groups.push(joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_with_room_stay_where_they_belong() {
        assert_eq!(spread(&[10.0, 50.0, 30.0], 20.0, 0.0, 100.0), [10.0, 50.0, 30.0]);
        assert_eq!(spread(&[], 20.0, 0.0, 100.0), Vec::<f64>::new());
    }

    #[test]
    fn labels_that_overlap_move_apart_around_their_middle() {
        assert_eq!(spread(&[50.0, 50.0, 53.0], 10.0, 0.0, 100.0), [41.0, 51.0, 61.0]);
    }

    #[test]
    fn labels_stay_within_the_bounds_while_there_is_room() {
        assert_eq!(spread(&[0.0, 1.0, 99.0, 100.0], 10.0, 0.0, 100.0), [0.0, 10.0, 90.0, 100.0]);
        let crowded = spread(&[5.0; 20], 10.0, 0.0, 100.0);
        assert!(crowded.windows(2).all(|pair| (pair[1] - pair[0] - 10.0).abs() < 1e-9));
    }
}
