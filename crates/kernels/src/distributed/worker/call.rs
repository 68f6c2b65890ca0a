//! What a rank calls, and what it gets back.

use std::cell::RefCell;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use cubeyard_runtime::Tensor;

use crate::collective::Operation;
use crate::distributed::{CollectiveReport, DistError};

/// What a rank has called.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Collective(Operation, Tensor, Tensor),
    Barrier,
    Send(usize, Tensor),
    Receive(usize, Tensor),
}

impl Call {
    /// What ranks that meet must have in common.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Collective(operation, ..) => operation.to_string(),
            Self::Barrier => "barrier".to_owned(),
            Self::Send(to, _) => format!("send to {to}"),
            Self::Receive(from, _) => format!("recv from {from}"),
        }
    }
}

/// The outcome of a call, once there is one. A failure is told to every rank of it, as text.
pub(super) type Answer = Rc<RefCell<Option<Result<Option<CollectiveReport>, String>>>>;

/// A call that waits for the others.
#[derive(Clone, Debug)]
pub(super) struct Posted {
    pub(super) call: Call,
    pub(super) at: &'static Location<'static>,
    pub(super) answer: Answer,
    /// How many calls came before it.
    pub(super) order: usize,
}

/// A call that has been made and can be waited for.
#[derive(Debug)]
#[must_use = "a call is done when it has been awaited"]
pub struct WorkHandle {
    pub(super) answer: Answer,
}

impl Future for WorkHandle {
    type Output = Result<(), DistError>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match self.answer.borrow().as_ref() {
            Some(Ok(_)) => Poll::Ready(Ok(())),
            Some(Err(what)) => Poll::Ready(Err(DistError::Apart(what.clone()))),
            None => Poll::Pending,
        }
    }
}

impl WorkHandle {
    /// What the collective took, and by which algorithm, if it is done.
    pub fn report(&self) -> Option<CollectiveReport> {
        self.answer.borrow().as_ref()?.as_ref().ok()?.clone()
    }
}
