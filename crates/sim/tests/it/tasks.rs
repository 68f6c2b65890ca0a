//! Sequential code in simulated time.

use std::cell::RefCell;
use std::rc::Rc;

use cubeyard_sim::{NullObserver, Span, Stop, Time};

use crate::grid::Grid;

#[test]
fn tasks_of_one_instant_go_on_in_the_order_in_which_they_asked() {
    let mut engine = Grid::plain(2, 1).engine(true, NullObserver);
    let said = Rc::new(RefCell::new(Vec::new()));
    for (name, naps) in [("a", [3_u64, 4]), ("b", [2, 5]), ("c", [7, 0])] {
        let said = Rc::clone(&said);
        engine.spawn(name, move |tasks| async move {
            for nap in naps {
                tasks.sleep(Span::from_ps(nap)).await;
            }
            said.borrow_mut().push((name, tasks.now().ps()));
        });
    }
    assert_eq!(engine.run(), Stop::Idle);
    assert_eq!(*said.borrow(), [("c", 7), ("b", 7), ("a", 7)]);
}

#[test]
fn a_signal_raised_before_the_wait_is_not_missed() {
    let mut engine = Grid::plain(2, 1).engine(true, NullObserver);
    let signal = engine.tasks().signal("the start", None);
    engine.spawn("early", |tasks| async move { tasks.raise(signal) });
    engine.spawn("late", |tasks| async move {
        tasks.sleep(Span::from_ps(9)).await;
        tasks.wait(signal).await;
        assert_eq!(tasks.now(), Time::from_ps(9));
    });
    assert_eq!(engine.run(), Stop::Idle);
    assert_eq!(engine.tasks().raised(signal), Some(Time::ZERO));
}

/// The key of a released signal once referred to the next signal in its place: a task waited for another task's signal.
#[test]
fn a_released_signal_is_not_taken_for_the_next_one() {
    let mut engine = Grid::plain(2, 1).engine(true, NullObserver);
    let tasks = engine.tasks();
    let first = tasks.signal("the first", None);
    tasks.raise(first);
    tasks.release(first);
    let second = tasks.signal("the second", None);
    assert_ne!(first, second);
    engine.spawn("late", move |tasks| async move { tasks.wait(first).await });
    assert_eq!(engine.run(), Stop::Idle);
    tasks.raise(first);
    assert_eq!((tasks.raised(first), tasks.raised(second)), (None, None));
    tasks.release(first);
    assert_ne!(tasks.signal("the third", None), second);
}
