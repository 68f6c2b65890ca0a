use super::*;

fn interval(start: u64, end: u64, kind: usize, name: &str) -> Interval {
    Interval { start, end, kind, name: name.to_owned() }
}

fn example() -> Activity {
    let intervals = vec![interval(500, 900, 1, "b<"), interval(0, 400, 0, "a")];
    Activity {
        end: 1000,
        kinds: vec!["forward".to_owned(), "backward".to_owned(), "unused".to_owned()],
        colours: vec![None, Some("#123456".to_owned())],
        lanes: vec![Lane { name: "stream 0".to_owned(), intervals }],
        levels: vec![Level { name: "memory".to_owned(), values: vec![(0, 10), (500, 40)] }],
    }
}

#[test]
fn intervals_are_as_long_as_their_share_of_the_axis() {
    let figure = example().figure("Step");
    // The plot is 910 units wide and begins at 150.
    assert!(figure.contains("x=\"150.00\" y=\"26\" width=\"364.00\""), "{figure}");
    assert!(figure.contains("x=\"605.00\" y=\"26\" width=\"364.00\""), "{figure}");
    assert!(figure.contains("b&lt;: 0.5 ns to 0.9 ns"), "{figure}");
}

#[test]
fn the_legend_has_the_kinds_that_occur() {
    let figure = example().figure("Step");
    assert!(
        figure.contains("</i>forward")
            && figure.contains("</i>backward")
            && !figure.contains("unused")
    );
}

#[test]
fn short_neighbours_are_one_block_and_nothing_at_all_is_no_figure() {
    let intervals = (0..10_000).map(|it| interval(100 * it, 100 * it + 99, 0, "x")).collect();
    let lanes = vec![Lane { name: "s".to_owned(), intervals }];
    let activity =
        Activity { end: 1_000_000, kinds: vec!["k".to_owned()], lanes, ..Activity::default() };
    let drawn = still::picture(&activity, "t");
    let blocks = drawn.matches("<rect").count();
    assert!((1..=1000).contains(&blocks), "{blocks}");
    assert!(Activity::default().figure("t").is_empty());
}

#[test]
fn packed_columns_have_differences_lengths_kinds_and_names() {
    let mut activity = example();
    activity.lanes[0].intervals.reverse();
    let (names, bytes) = activity.columns();
    assert_eq!(names, ["a", "b<"]);
    // 0, 500; 400, 400; 0, 1; 0, 1 with seven bits in each byte.
    assert_eq!(bytes, [0, 244, 3, 144, 3, 144, 3, 0, 1, 0, 1]);
    assert_eq!(activity.values(), [0, 244, 3, 10, 40]);
}

#[test]
fn a_kind_has_its_own_colour_in_legend_picture_and_script() {
    let figure = example().figure("Step");
    let [first, other] = [kind_colour(0), "#123456"];
    assert!(figure.contains(&format!("data-colours=\"{first} {other} {}\"", kind_colour(2))));
    assert_eq!(figure.matches(&format!("background:{other}")).count(), 1, "{figure}");
    assert_eq!(figure.matches(&format!("fill=\"{other}\"")).count(), 1, "{figure}");
    assert!(!figure.contains(kind_colour(1)), "{figure}");
}
