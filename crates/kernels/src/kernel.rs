//! Kernels, and the arguments that they are given.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};

use cubeyard_runtime::{BoundArgument, BoundTensor};

use crate::tl::{Ref, Tl};

/// A kernel at work.
pub type KernelFuture = Pin<Box<dyn Future<Output = ()>>>;

/// The function of a kernel.
type Body = dyn Fn(Tl, Args) -> KernelFuture;

/// A kernel: a name and an `async` function. Cheap to clone.
///
/// A kernel is known by its function, which it shares with its clones. Names are for people: two kernels of
/// one name are two kernels, each of which is recorded by itself.
#[derive(Clone)]
pub struct Kernel {
    name: Rc<str>,
    body: Rc<Body>,
}

impl Kernel {
    /// A kernel. See [`tl`](crate::tl) for how to write one.
    pub fn new(name: &str, body: impl Fn(Tl, Args) -> KernelFuture + 'static) -> Self {
        Self { name: name.into(), body: Rc::new(body) }
    }

    /// What reports call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> Rc<str> {
        Rc::clone(&self.name)
    }

    /// Number of its function, which no other kernel has as long as this one, a clone of it, or what
    /// [`downgrade`](Self::downgrade) returned is there.
    pub(crate) fn identity(&self) -> usize {
        Rc::as_ptr(&self.body).addr()
    }

    /// Reference to its function that does not keep it alive.
    pub(crate) fn downgrade(&self) -> WeakKernel {
        WeakKernel(Rc::downgrade(&self.body))
    }

    pub(crate) fn start(&self, tl: Tl, args: Args) -> KernelFuture {
        (self.body)(tl, args)
    }
}

/// The function of a kernel that may be gone. Its memory is not given to another function until this is
/// dropped, so its address stays the kernel's own.
pub(crate) struct WeakKernel(Weak<Body>);

impl WeakKernel {
    /// Whether the kernel, or a clone of it, is there.
    pub(crate) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl fmt::Debug for WeakKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WeakKernel").field(&self.is_alive()).finish()
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The arguments of a kernel, as its PE sees them. Asking for one that is not there ends the kernel.
#[derive(Clone, Debug)]
pub struct Args {
    tl: Tl,
    bound: Rc<[BoundArgument]>,
}

/// A tensor that a kernel was given.
#[derive(Clone, Debug)]
pub struct TensorArg<'a> {
    tl: &'a Tl,
    position: usize,
    bound: &'a BoundTensor,
}

impl Args {
    pub(crate) fn new(tl: Tl, bound: Rc<[BoundArgument]>) -> Self {
        Self { tl, bound }
    }

    /// The tensor at a position, counted from 0.
    #[track_caller]
    pub fn tensor(&self, position: usize) -> TensorArg<'_> {
        match self.bound.get(position) {
            Some(BoundArgument::Tensor(bound)) => TensorArg { tl: &self.tl, position, bound },
            other => self.missing(position, "a tensor", other),
        }
    }

    /// The number at a position, counted from 0.
    #[track_caller]
    pub fn number(&self, position: usize) -> f64 {
        match self.bound.get(position) {
            Some(BoundArgument::Scalar(value)) => *value,
            other => self.missing(position, "a number", other),
        }
    }

    /// The whole number at a position, counted from 0.
    #[track_caller]
    pub fn whole(&self, position: usize) -> u64 {
        let number = self.number(position);
        if number >= 0.0 && number <= 2.0_f64.powi(53) && number.fract() == 0.0 {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked"
            )]
            return number as u64;
        }
        self.tl.fail(format!("argument {position}: expected a whole number, found {number}"))
    }

    #[track_caller]
    fn missing(&self, position: usize, expected: &str, found: Option<&BoundArgument>) -> ! {
        let found = match found {
            Some(BoundArgument::Tensor(_)) => "a tensor",
            Some(BoundArgument::Scalar(_)) => "a number",
            None => "nothing",
        };
        self.tl.fail(format!("argument {position}: expected {expected}, found {found}"))
    }
}

impl TensorArg<'_> {
    /// All of it, whoever holds it: a matrix of its first dimensions joined and its last, or a vector.
    #[track_caller]
    pub fn whole(&self) -> Ref {
        let Some(address) = self.bound.whole else {
            let what = "no one range of addresses is all of it, row by row; use local()";
            self.tl.fail(format!("argument {}: {what}", self.position))
        };
        Ref::new(address, self.bound.shape.dimensions(), self.bound.dtype)
    }

    /// What this PE holds of it: a matrix of its own, or a vector.
    #[track_caller]
    pub fn local(&self) -> Ref {
        let Some(local) = self.local_if_any() else {
            let pe = self.tl.state.site.pe;
            self.tl.fail(format!("argument {}: {pe} holds nothing of it", self.position))
        };
        local
    }

    /// As [`local`](Self::local); none if this PE holds nothing.
    pub fn local_if_any(&self) -> Option<Ref> {
        let part = self.bound.local.as_ref()?;
        let rows = part.rows.end - part.rows.start;
        let columns = part.columns.end - part.columns.start;
        let is_vector = self.bound.shape.rank() <= 1;
        let shape = if is_vector { vec![rows * columns] } else { vec![rows, columns] };
        Some(Ref::new(part.address, &shape, self.bound.dtype))
    }

    /// The first row and column of [`local`](Self::local) in the whole.
    #[track_caller]
    pub fn local_start(&self) -> [u64; 2] {
        match &self.bound.local {
            Some(part) => [part.rows.start, part.columns.start],
            None => [0; 2],
        }
    }
}

/// A problem of a kernel that no call of `tl` found: it panicked.
pub(crate) fn panicked(kernel: &str, payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    format!("{kernel} panicked: {}", text.unwrap_or_else(|| "no reason given".to_owned()))
}
