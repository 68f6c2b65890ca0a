//! Calls of ranks and their outcomes.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use cubeyard_runtime::Tensor;

use crate::collective::Operation;
use crate::distributed::{CollectiveReport, DistError};

#[derive(Clone, Debug)]
pub(super) enum Call {
    Collective(Operation, Tensor, Tensor),
    Barrier,
    Send(usize, Tensor),
    Receive(usize, Tensor),
}

impl Call {
    /// Returns the name of the call; matching calls have equal names.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Collective(operation, ..) => operation.to_string(),
            Self::Barrier => "barrier".to_owned(),
            Self::Send(to, _) => format!("send to {to}"),
            Self::Receive(from, _) => format!("recv from {from}"),
        }
    }
}

/// The outcome of a call, once it is known. A failure is reported to every rank concerned, as text.
pub(super) type Answer = Rc<RefCell<Option<Result<Option<CollectiveReport>, String>>>>;

/// A call that waits for the calls of other ranks.
#[derive(Clone, Debug)]
pub(super) struct Posted {
    pub(super) call: Call,
    /// Line of the call.
    pub(super) at: String,
    pub(super) answer: Answer,
}

/// A call that was made and can be awaited.
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
    /// Returns the report of a completed collective.
    pub fn report(&self) -> Option<CollectiveReport> {
        self.answer.borrow().as_ref()?.as_ref().ok()?.clone()
    }
}
