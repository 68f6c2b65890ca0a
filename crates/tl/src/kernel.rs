//! Kernels and their arguments.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::{Rc, Weak};

use cubeyard_runtime::{BoundArgument, BoundTensor, HeldPart, Scalar};

use crate::{Ref, Tl};

/// A running kernel.
pub type KernelFuture = Pin<Box<dyn Future<Output = ()>>>;

type Body = dyn Fn(Tl, Args) -> KernelFuture;

/// A kernel: a name and an `async` function. Cheap to clone.
///
/// A kernel is identified by its function, which it shares with its clones. Names are only for display: two kernels of
/// the same name are recorded separately.
#[derive(Clone)]
pub struct Kernel {
    name: Rc<str>,
    body: Rc<Body>,
    is_live: bool,
}

impl Kernel {
    /// Creates a kernel. See [`tl`](crate) for how to write one.
    pub fn new(name: &str, body: impl Fn(Tl, Args) -> KernelFuture + 'static) -> Self {
        Self { name: name.into(), body: Rc::new(body), is_live: false }
    }

    /// Makes every launcher run the kernel live.
    #[must_use]
    pub fn live(self) -> Self {
        Self { is_live: true, ..self }
    }

    /// Returns whether every launcher runs the kernel live.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Returns the name used in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shared_name(&self) -> Rc<str> {
        Rc::clone(&self.name)
    }

    /// Returns an identity that is unique as long as this kernel, a clone of it, or a result of
    /// [`downgrade`](Self::downgrade) exists.
    pub(crate) fn identity(&self) -> usize {
        Rc::as_ptr(&self.body).addr()
    }

    /// Returns a weak reference to the kernel's function.
    pub(crate) fn downgrade(&self) -> WeakKernel {
        WeakKernel(Rc::downgrade(&self.body))
    }

    /// Runs the kernel as part of another kernel, which passes its PE and [some](Args::skip) of its arguments.
    pub fn start(&self, tl: Tl, args: Args) -> KernelFuture {
        (self.body)(tl, args)
    }
}

/// A weak reference to a kernel's function. It reserves the function's address, so the identity is not reused.
pub(crate) struct WeakKernel(Weak<Body>);

impl WeakKernel {
    /// Returns whether the kernel or a clone of it exists.
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

/// The arguments of a kernel, as seen by its PE. Accessing a missing argument ends the kernel.
#[derive(Clone, Debug)]
pub struct Args {
    tl: Tl,
    bound: Rc<[BoundArgument]>,
    /// Number of skipped arguments before the first.
    skipped: usize,
}

/// A tensor argument of a kernel.
#[derive(Clone, Debug)]
pub struct TensorArg<'a> {
    tl: &'a Tl,
    position: usize,
    bound: &'a BoundTensor,
}

impl Args {
    pub(crate) fn new(tl: Tl, bound: Rc<[BoundArgument]>) -> Self {
        Self { tl, bound, skipped: 0 }
    }

    /// Returns the arguments after the first `count`, for a kernel that is part of another kernel.
    #[must_use]
    pub fn skip(&self, count: usize) -> Self {
        let skipped = (self.skipped + count).min(self.bound.len());
        Self { skipped, ..self.clone() }
    }

    /// Returns all arguments in order.
    pub fn bound(&self) -> &[BoundArgument] {
        &self.bound[self.skipped..]
    }

    /// Returns the tensor at a position, counted from 0.
    #[track_caller]
    pub fn tensor(&self, position: usize) -> TensorArg<'_> {
        match self.bound().get(position) {
            Some(BoundArgument::Tensor(bound)) => TensorArg { tl: &self.tl, position, bound },
            other => self.missing(position, "a tensor", other),
        }
    }

    /// Returns the number at a position, counted from 0, with the type in which it was passed.
    #[track_caller]
    pub fn number(&self, position: usize) -> Scalar {
        match self.bound().get(position) {
            Some(BoundArgument::Scalar(value)) => *value,
            other => self.missing(position, "a number", other),
        }
    }

    /// Returns the non-negative whole number at a position, counted from 0.
    #[track_caller]
    pub fn whole(&self, position: usize) -> u64 {
        let number = self.number(position);
        if let Some(whole) = number.whole().and_then(|whole| u64::try_from(whole).ok()) {
            return whole;
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
    /// Returns the whole tensor, whichever PEs hold it, in its own shape. Ends the kernel unless the tensor is one
    /// contiguous row-major range.
    #[track_caller]
    pub fn whole(&self) -> Ref {
        let Some(address) = self.bound.whole else {
            let what = "it is not one contiguous row-major range; use local()";
            self.tl.fail(format!("argument {}: {what}", self.position))
        };
        Ref::new(address, self.bound.shape.dimensions(), self.bound.dtype)
    }

    /// Returns the part that this PE holds: a matrix or a vector. For a view, it is a part of the view's matrix.
    #[track_caller]
    pub fn local(&self) -> Ref {
        let Some(local) = self.local_if_any() else {
            let pe = self.tl.state.site.pe;
            self.tl.fail(format!("argument {}: {pe} holds no part of it", self.position))
        };
        local
    }

    /// Does the same as [`local`](Self::local); returns `None` if this PE holds no part.
    #[track_caller]
    pub fn local_if_any(&self) -> Option<Ref> {
        match self.held() {
            Ok(part) => part,
            Err(why) => self.tl.fail(format!("argument {}: {why}", self.position)),
        }
    }

    /// Does the same as [`local_if_any`](Self::local_if_any); the error states why a part of a view has no shape.
    pub fn held(&self) -> Result<Option<Ref>, String> {
        let part = match &self.bound.local {
            HeldPart::Nothing => return Ok(None),
            HeldPart::Rectangle(part) => part,
            HeldPart::Ragged(Range { start, end }) => {
                let (pe, shape) = (self.tl.state.site.pe, self.bound.shape);
                return Err(format!(
                    "{pe} holds elements {start} to {end} of a view of {shape}, which are no rectangle of it; use \
                     the whole of it, or a view whose rows it holds"
                ));
            }
        };
        let rows = part.rows.end - part.rows.start;
        let columns = part.columns.end - part.columns.start;
        let is_vector = self.bound.shape.rank() <= 1;
        let shape = if is_vector { vec![rows * columns] } else { vec![rows, columns] };
        Ok(Some(Ref::new(part.address, &shape, self.bound.dtype)))
    }
}

/// Formats the error of a kernel that panicked.
pub(crate) fn panicked(kernel: &str, payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    format!("{kernel} panicked: {}", text.unwrap_or_else(|| "no reason given".to_owned()))
}
