//! The processor of an IO chiplet: fans launches out to cubes and gathers their completions.

use std::collections::BTreeMap;
use std::sync::Arc;

use cubeyard_sim::{Asks, Component, Context, Delivery, Send};

use crate::message::{Message, RequestId};

/// `IO_CPU`. What it charges a message is its node's overhead.
#[derive(Clone, Debug, Default)]
pub struct IoCpu {
    /// How many cubes of each launch are not done.
    open: BTreeMap<RequestId, usize>,
}

impl Component for IoCpu {
    type Message = Message;

    fn receive(&mut self, delivery: Delivery<Message>, context: &mut Context<Message>) {
        let now = context.now();
        match delivery.message {
            Message::LaunchSip(launch) => {
                self.open.insert(launch.request, launch.cubes.len());
                launch.start.get_or_init(|| now + launch.lead);
                for (number, cube) in launch.cubes.iter().enumerate() {
                    let message = Message::LaunchCube(Arc::clone(&launch), number);
                    let (route, asks) = (cube.to.clone(), Asks::At(now));
                    context.send(Send { route, bytes: 0, asks, message });
                }
            }
            Message::CubeDone(launch) => {
                if done(&mut self.open, launch.request) {
                    let (route, asks) = (launch.from_io_cpu.clone(), Asks::At(now));
                    let message = Message::LaunchDone(launch);
                    context.send(Send { route, bytes: 0, asks, message });
                }
            }
            other => unreachable!("IO_CPU is sent launches: {other:?}"),
        }
    }

    fn waits_for(&self) -> Option<String> {
        waits(&self.open, "cubes")
    }
}

/// One more part of a launch is done: whether it was the last.
pub(super) fn done(open: &mut BTreeMap<RequestId, usize>, launch: RequestId) -> bool {
    let left = open.get_mut(&launch).expect("only parts of a launch under way are done");
    *left -= 1;
    let last = *left == 0;
    if last {
        open.remove(&launch);
    }
    last
}

pub(super) fn waits(open: &BTreeMap<RequestId, usize>, what: &str) -> Option<String> {
    let (launch, left) = open.first_key_value()?;
    Some(format!("{left} {what} of launch {launch}"))
}
