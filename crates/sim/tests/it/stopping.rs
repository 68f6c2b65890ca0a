//! Reasons why an engine stops.

use cubeyard_sim::{Asks, NodeId, NullObserver, Span, Stop, Time, TransferSpec, Waiter, Waiting};

use crate::grid::{Grid, Note};

#[test]
fn an_engine_without_work_is_idle_at_once() {
    let mut engine = Grid::plain(2, 1).engine(true, NullObserver);
    assert_eq!(engine.run(), Stop::Idle);
    assert_eq!(engine.now(), Time::ZERO);
}

#[test]
fn a_deadline_stops_just_after_what_is_due_by_then() {
    let grid = Grid::plain(2, 1);
    let mut engine = grid.engine(true, NullObserver);
    let message = Box::new(Note { label: 0, answer: None });
    let route = grid.checked_route(0, 1);
    let send = TransferSpec { route, bytes: 256, asks: Asks::At(Time::ZERO), message };
    engine.call(NodeId::new(0), Box::new(Note { label: 0, answer: Some(send) }));
    assert_eq!(engine.run_until(Time::from_ps(999)), Stop::Deadline);
    assert_eq!(engine.component(NodeId::new(1)).unwrap().received, []);
    assert_eq!(engine.now(), Time::from_ps(999));
    assert_eq!(engine.run_until(Time::from_ps(1000)), Stop::Idle);
    assert_eq!(engine.component(NodeId::new(1)).unwrap().received.len(), 1);
}

#[test]
fn two_tasks_that_wait_for_each_other_are_a_deadlock_with_names() {
    let mut engine = Grid::plain(2, 1).engine(true, NullObserver);
    let tasks = engine.tasks();
    let ping = tasks.signal("a ping", Some("right".into()));
    let reply = tasks.signal("a pong", Some("left".into()));
    engine.spawn("left", |tasks| async move {
        tasks.sleep(Span::from_ps(5)).await;
        tasks.wait(ping).await;
        tasks.raise(reply);
    });
    engine.spawn("right", |tasks| async move {
        tasks.wait(reply).await;
        tasks.raise(ping);
    });
    let Stop::Deadlock(waiting) = engine.run() else { panic!("nobody can go on") };
    let wait = |who: &str, what: &str, owner: &str| Waiting {
        who: Waiter::Task(who.into()),
        what: what.into(),
        owner: Some(owner.into()),
    };
    assert_eq!(waiting, [wait("left", "a ping", "right"), wait("right", "a pong", "left")]);
    assert_eq!(waiting[0].to_string(), "left waits for a ping from right");
}
