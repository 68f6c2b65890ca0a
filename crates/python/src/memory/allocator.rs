//! Methods of the class `FlexAllocator`.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use cubeyard_memory::device::DeviceMemory;
use cubeyard_memory::flex::{self, Acquire, FlexConfig, Growth, Pooling, Refusal, Release, Sizes};
use cubeyard_memory::policy::{Kind as BlockKind, Request};
use cubeyard_memory::{Bytes, VirtualAddress};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use super::address::Address;
use super::block::{Allocation, Pin};
use super::calls::{self, Held, Raised};
use super::compaction::Compaction;
use super::device::PythonDevice;
use super::history::HistoryEntry;
use super::hooks::{self, Hooks, Objects};
use super::launch::{self, Launch, Program};
use super::native_device::MemoryDevice;
use super::owner::FlexAllocator;
use super::pool::{self, Pool};
use super::streams::PythonStreams;
use super::tag::{self, Tag};
use super::token::{AllocationToken, TokenBlock};
use super::watch::{self, Subscription};
use super::{arguments, figures, pressure};
use crate::error::{Kind, OrRaise};
use crate::forks;

/// Returns the microseconds since 1970, as in PyTorch's histories.
#[expect(clippy::disallowed_methods, reason = "a front reads the clock")]
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Reads a clock written in Python; if it raises an exception, the clock stands still.
fn read_clock(hooks: &Weak<Hooks>) -> u64 {
    let now = Python::try_attach(|py| {
        let clock = hooks::find(py, hooks, |objects| &objects.clock)?;
        let read = clock.call0(py).and_then(|now| now.extract::<u64>(py));
        read.map_err(|error| calls::raise(Raised::Callback(error))).ok()
    });
    now.flatten().unwrap_or(0)
}

/// Reads a configuration. The settings change the text, but a preset comes before both.
fn config(text: &str, settings: &[(String, String)]) -> PyResult<FlexConfig> {
    let mut config = FlexConfig::default();
    let (presets, others): (Vec<_>, Vec<_>) = settings.iter().partition(|(key, _)| key == "preset");
    presets.iter().try_for_each(|(key, value)| config.set(key, value)).or_raise()?;
    config.update(text).or_raise()?;
    others.iter().try_for_each(|(key, value)| config.set(key, value)).or_raise()?;
    Ok(config)
}

fn source(device: &Bound<'_, PyAny>, hooks: &Arc<Hooks>) -> PyResult<Arc<dyn DeviceMemory>> {
    match device.cast::<MemoryDevice>() {
        Ok(native) => Ok(native.get().memory()),
        Err(_) => Ok(Arc::new(PythonDevice::new(device, Arc::downgrade(hooks))?)),
    }
}

#[pymethods]
impl FlexAllocator {
    #[new]
    fn new(
        device: &Bound<'_, PyAny>,
        text: &str,
        settings: Vec<(String, String)>,
        streams: Option<Py<PyAny>>,
        clock: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let py = device.py();
        let (has_streams, has_clock) = (streams.is_some(), clock.is_some());
        let kept = Some(device.clone().unbind());
        let objects = Objects { device: kept, streams, clock, ..Objects::default() };
        let hooks = Arc::new(Hooks::new(objects));
        let weak = Arc::downgrade(&hooks);
        let mut builder =
            flex::FlexAllocator::builder(source(device, &hooks)?).config(config(text, &settings)?);
        builder = if has_clock {
            let hooks = weak.clone();
            builder.clock(move || read_clock(&hooks))
        } else {
            builder.clock(now)
        };
        if has_streams {
            builder = builder.events(Arc::new(PythonStreams::new(weak.clone())));
        }
        let inner = calls::call(py, forks::count(), || builder.build())?.or_raise()?;
        inner.on_pressure(move |report| pressure::call_back(&weak, report));
        Ok(Self { inner: Held::new(inner, forks::count()), hooks })
    }

    /// Allocates a block.
    ///
    /// Args:
    ///     size: Number of bytes; the block may be longer, by rounding.
    ///     alignment: Alignment of its start, a power of two.
    ///     stream: Stream that will use it.
    ///     kind: Purpose, "tensor", "program" or "staging"; a kind can have regions of its own.
    ///     site: Number of the call site in the program, from which the policy `lifetime` learns; 0 where unknown.
    ///     pool: Pool whose regions hold the block; by default the pool whose `with` block the thread is in.
    ///     tag: Tag that the block carries; by default the tag whose `with` block the thread is in.
    ///
    /// Raises:
    ///     OutOfMemory: There is no room; `details` has the numbers of the report.
    ///     BudgetExceeded: The hard budget of the tag refuses the request; an `OutOfMemory`.
    ///     DeviceError: The device raised an exception, which is the `__cause__`.
    ///     BusyError: The call comes from a function of the device, and would need another region.
    ///
    /// >>> from cubeyard.memory import FlexAllocator
    /// >>> FlexAllocator().allocate(1000, alignment=4096).size
    /// 1024
    #[expect(
        clippy::similar_names,
        clippy::doc_markdown,
        clippy::too_many_arguments,
        reason = "arguments and documentation are those of Python"
    )]
    #[pyo3(
        signature = (
            size, *, alignment = 1, stream = 0, kind = BlockKind::Tensor, site = 0, pool = None, tag = None
        ),
        text_signature =
            "($self, size, *, alignment=1, stream=0, kind='tensor', site=0, pool=None, tag=None)"
    )]
    fn allocate(
        this: &Bound<'_, Self>,
        #[pyo3(from_py_with = arguments::size)] size: u64,
        #[pyo3(from_py_with = arguments::alignment)] alignment: u64,
        #[pyo3(from_py_with = arguments::stream)] stream: u32,
        #[pyo3(from_py_with = arguments::kind)] kind: BlockKind,
        #[pyo3(from_py_with = arguments::site)] site: u32,
        #[pyo3(from_py_with = pool::argument)] pool: Option<Py<Pool>>,
        #[pyo3(from_py_with = tag::argument)] tag: Option<Py<Tag>>,
    ) -> PyResult<Allocation> {
        let (size, alignment) = (Bytes::new(size), Bytes::new(alignment));
        let owner = this.into();
        let (pool, tag) = (pool::of_request(&owner, pool)?, tag::of_request(&owner, tag)?);
        let request = Request { size, alignment, kind, stream, site, pool, tag };
        let allocate = |inner: &flex::FlexAllocator| inner.allocate_for(&request);
        let block = this.get().call(this.py(), allocate)?.or_raise()?;
        Ok(Allocation::new(block, this))
    }

    /// Creates a pool, whose blocks lie in regions of their own; see `Pool`.
    ///
    /// Args:
    ///     name: Name in reports; names need not be unique.
    ///     limit: Maximum number of bytes that its regions reserve; `None` for no limit.
    #[pyo3(signature = (name, *, limit = None))]
    fn pool(
        this: &Bound<'_, Self>,
        #[pyo3(from_py_with = arguments::name)] name: String,
        #[pyo3(from_py_with = arguments::optional_limit)] limit: Option<u64>,
    ) -> PyResult<Pool> {
        Pool::new(this.py(), this.into(), &name, limit)
    }

    /// Returns the tag of a name, which is registered if it is new; see `Tag`. If a budget is given, both are set.
    ///
    /// Args:
    ///     name: Name of the tag.
    ///     soft: Bytes above which `on_pressure` functions and subscribers are called.
    ///     hard: Bytes above which requests are refused.
    #[pyo3(signature = (name, *, soft = None, hard = None))]
    fn tag(
        this: &Bound<'_, Self>,
        #[pyo3(from_py_with = arguments::name)] name: String,
        #[pyo3(from_py_with = arguments::soft)] soft: Option<u64>,
        #[pyo3(from_py_with = arguments::hard)] hard: Option<u64>,
    ) -> PyResult<Tag> {
        Tag::new(this.py(), this.into(), &name, (soft, hard))
    }

    /// Returns all tags, in the order of their registration.
    fn tags(this: &Bound<'_, Self>) -> PyResult<Vec<Tag>> {
        let reports = this.get().call(this.py(), flex::FlexAllocator::tags)?;
        Ok(reports.iter().map(|report| Tag::of(report, this.into())).collect())
    }

    /// Returns the figures of all pools at one moment, the allocator's own first.
    #[pyo3(name = "_pool_figures")]
    fn pool_figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        figures::pools(py, &self.call(py, flex::FlexAllocator::pools)?)
    }

    /// Frees the block that starts at an address, and that `Allocation.leak` has given up.
    fn free(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = Address::read)] address: Address,
    ) -> PyResult<()> {
        let address = VirtualAddress::from(&address);
        self.call(py, |inner| inner.deallocate(address))?.or_raise()
    }

    /// Registers a function to be called when memory has run out, with the report: an `OutOfMemory` that was not raised.
    ///
    /// It may free blocks and trim. The functions are called in the order in which they were registered; then the request is
    /// tried once more. An exception of one of them is raised by `allocate`. `unsubscribe()` of the result takes the
    /// function back.
    ///
    /// >>> from cubeyard.memory import Card, FlexAllocator
    /// >>> allocator = FlexAllocator(Card(4 << 30))
    /// >>> cache = [allocator.allocate(3 << 30)]
    /// >>> dropping = allocator.on_pressure(lambda report: cache.clear())
    /// >>> allocator.allocate(2 << 30).size >> 30        # the cache made room
    /// 2
    /// >>> dropping.unsubscribe()
    fn on_pressure(this: &Bound<'_, Self>, callback: Bound<'_, PyAny>) -> PyResult<Subscription> {
        watch::on_pressure(this.into(), callback)
    }

    /// Registers a function to be called with every `Event` from now on, until the subscription ends.
    ///
    /// Events arrive one at a time, in one order for all threads, before the call that caused them returns: on its thread, or
    /// on another thread that delivers events at that moment. The function may use the allocator; the events of these calls
    /// follow when it has returned. It must not wait for another thread that uses the allocator. An exception goes to
    /// `sys.unraisablehook`, and the function stays registered.
    ///
    /// >>> from cubeyard.memory import FlexAllocator
    /// >>> allocator, live = FlexAllocator(), {}
    /// >>> def watch(event):
    /// ...     if event.action == "alloc":
    /// ...         live[event.flat] = event.size
    /// ...     elif event.action == "free_completed":
    /// ...         del live[event.flat]
    /// >>> with allocator.subscribe(watch):
    /// ...     first, second = allocator.allocate(1000), allocator.allocate(2000)
    /// ...     first.free()
    /// >>> list(live.values())
    /// [2048]
    fn subscribe(this: &Bound<'_, Self>, callback: Bound<'_, PyAny>) -> PyResult<Subscription> {
        watch::subscribe(this.into(), callback)
    }

    /// Writes allocations and frees from now on to a file, as RAPIDS RMM's logs are written, until the subscription ends.
    /// `cubeyard.replay` reads such a file.
    ///
    /// >>> import os, tempfile
    /// >>> from cubeyard import replay
    /// >>> from cubeyard.memory import FlexAllocator
    /// >>> allocator = FlexAllocator()
    /// >>> path = os.path.join(tempfile.mkdtemp(), "log.csv")
    /// >>> with allocator.subscribe_rmm_log(path):
    /// ...     allocator.allocate(1000).free()
    /// >>> print(open(path).readline().strip())
    /// Thread,Time,Action,Pointer,Size,Stream
    /// >>> replay.read(path)[0].allocations
    /// 1
    fn subscribe_rmm_log(this: &Bound<'_, Self>, path: PathBuf) -> PyResult<Subscription> {
        watch::subscribe_log(this.py(), this.into(), path)
    }

    /// Frees the block of a token. A token of a freed block, or of another allocator, is an `InputError`.
    fn free_token(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = AllocationToken::read)] token: AllocationToken,
    ) -> PyResult<()> {
        self.call(py, |inner| inner.free_token(token.0))?.or_raise()
    }

    /// Makes an `Allocation` own the block of a token again.
    fn adopt(
        this: &Bound<'_, Self>,
        #[pyo3(from_py_with = AllocationToken::read)] token: AllocationToken,
    ) -> PyResult<Allocation> {
        let block = this.get().call(this.py(), |inner| inner.adopt(token.0))?.or_raise()?;
        Ok(Allocation::new(block, this))
    }

    /// Returns the present address of a token's block.
    fn address_of(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = AllocationToken::read)] token: AllocationToken,
    ) -> PyResult<Address> {
        Ok(self.call(py, |inner| inner.address_of(token.0))?.or_raise()?.into())
    }

    /// Returns the block of a token: its address, its length and its purpose.
    fn block_of(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = AllocationToken::read)] token: AllocationToken,
    ) -> PyResult<TokenBlock> {
        Ok(self.call(py, |inner| inner.block_of(token.0))?.or_raise()?.into())
    }

    /// Pins the block of a token, as `Allocation.pin` does.
    fn pin_token(
        this: &Bound<'_, Self>,
        #[pyo3(from_py_with = AllocationToken::read)] token: AllocationToken,
    ) -> PyResult<Pin> {
        let pin = this.get().call(this.py(), |inner| inner.pin_token(token.0))?.or_raise()?;
        Ok(Pin::new(pin, this))
    }

    /// Notes that another stream uses the block of a token too, as `Allocation.record_stream` does.
    fn record_stream_token(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = AllocationToken::read)] token: AllocationToken,
        #[pyo3(from_py_with = arguments::stream)] stream: u32,
    ) -> PyResult<()> {
        self.call(py, |inner| inner.record_stream_token(token.0, stream))?.or_raise()
    }

    /// Allocates memory for a program of `binary` bytes that takes `parameters` operands.
    fn load_program(
        this: &Bound<'_, Self>,
        #[pyo3(from_py_with = arguments::binary)] binary: u64,
        #[pyo3(from_py_with = arguments::parameters)] parameters: usize,
    ) -> PyResult<Program> {
        let load = |inner: &flex::FlexAllocator| inner.load_program(Bytes::new(binary), parameters);
        Ok(Program::new(this.get().call(this.py(), load)?.or_raise()?, this))
    }

    /// Prepares a launch of a program: pins the operands, allocates a block for their addresses, and resolves the addresses
    /// through the segment table; see `Launch`. An operand is an `Allocation`, an `AllocationToken`, or one of them with the
    /// offset and size of a part: `(block, offset, size)`.
    fn launch(
        this: &Bound<'_, Self>,
        program: &Program,
        operands: &Bound<'_, PyAny>,
    ) -> PyResult<Launch> {
        launch::launch(this, program, operands)
    }

    /// Starts a new history of the last `limit` events, which replaces the current one; 0 disables the history.
    ///
    /// >>> from cubeyard.memory import FlexAllocator
    /// >>> allocator = FlexAllocator()
    /// >>> allocator.record_history(2)
    /// >>> allocator.allocate(1000).free()
    /// >>> [(entry.action, entry.size) for entry in allocator.history()]
    /// [('free_requested', 1000), ('free_completed', 1000)]
    fn record_history(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::events)] limit: usize,
    ) -> PyResult<()> {
        self.call(py, |inner| inner.record_history(limit))
    }

    /// Returns the most recent events, the oldest first; `record_history` or the key `history` limits their number.
    fn history(&self, py: Python<'_>) -> PyResult<Vec<HistoryEntry>> {
        let entries = self.call(py, flex::FlexAllocator::history)?;
        Ok(entries.iter().map(HistoryEntry::from).collect())
    }

    /// Gives all idle memory back to the device, and returns the number of its bytes. From then on regions may be acquired
    /// again, also after the device has refused.
    fn trim(&self, py: Python<'_>) -> PyResult<u64> {
        self.call(py, |inner| inner.trim().get())
    }

    /// Waits until no freed block waits for a stream any more.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, flex::FlexAllocator::synchronize)
    }

    /// Plans moves that bring free memory together; see `Compaction`. Blocks that are pinned, leaked, or used by several
    /// streams stay.
    fn compact(this: &Bound<'_, Self>) -> PyResult<Compaction> {
        let plan = this.get().call(this.py(), flex::FlexAllocator::compact)?;
        Ok(Compaction::new(plan, this))
    }

    /// Plans the next step of a compaction, with at most `budget` bytes to copy, or with one block if that is larger. A
    /// plan without moves says that the pass is complete.
    ///
    /// >>> from cubeyard.memory import FlexAllocator
    /// >>> allocator = FlexAllocator()
    /// >>> blocks = [allocator.allocate(3 << 20) for _ in range(8)]
    /// >>> del blocks[:4]
    /// >>> while step := allocator.compact_step(8 << 20):
    /// ...     print(step.bytes >> 20)                 # copy the data of `step.moves`, then
    /// ...     _ = step.commit()
    /// 6
    /// 6
    fn compact_step(
        this: &Bound<'_, Self>,
        #[pyo3(from_py_with = arguments::budget)] budget: u64,
    ) -> PyResult<Compaction> {
        let step = |inner: &flex::FlexAllocator| inner.compact_step(Bytes::new(budget));
        Ok(Compaction::new(this.get().call(this.py(), step)?, this))
    }

    /// Returns the statistics, by PyTorch's keys.
    #[pyo3(name = "_entries")]
    fn entries<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        figures::statistics(py, &self.call(py, flex::FlexAllocator::stats)?)
    }

    /// Returns one statistic, by PyTorch's key.
    ///
    /// >>> from cubeyard.memory import FlexAllocator
    /// >>> allocator = FlexAllocator()
    /// >>> block = allocator.allocate(1000)
    /// >>> allocator.statistic("allocated_bytes.all.current")
    /// 1024
    fn statistic(&self, py: Python<'_>, key: &str) -> PyResult<i64> {
        let found = self.call(py, flex::FlexAllocator::stats)?.key(key);
        let text = || format!("key is {key:?}: expected a key of `statistics().to_dict()`");
        found.ok_or_else(|| Kind::Input.error(text()))
    }

    /// Sets the peaks to the current figures.
    fn reset_peak_statistics(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, flex::FlexAllocator::reset_peak_stats)
    }

    /// Sets the accumulated figures and the counters to zero.
    fn reset_accumulated_statistics(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, flex::FlexAllocator::reset_accumulated_stats)
    }

    /// Returns a snapshot as a pickle.
    #[pyo3(name = "_pickled")]
    fn pickled<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arguments::device_number)] device: u32,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let written = self.call(py, |inner| {
            let mut bytes = Vec::new();
            inner.snapshot().write_pickle(device, &mut bytes).map(|()| bytes)
        })?;
        let bytes = written.map_err(|error| Kind::Internal.error(error.to_string()))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Returns the figures of the regions, the oldest first.
    #[pyo3(name = "_region_figures")]
    fn region_figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        figures::regions(py, &self.call(py, flex::FlexAllocator::regions)?)
    }

    /// Returns the segment table: the id, flat address and size of each region; nothing for an empty entry.
    #[pyo3(name = "_segments")]
    fn segments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        figures::segments(py, &self.call(py, flex::FlexAllocator::segment_table)?)
    }

    /// Returns the physical address of an address: in a physical function the id of the region is one, in a virtual function
    /// the firmware's table has it.
    fn physical_address(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = Address::read)] address: Address,
    ) -> PyResult<u64> {
        let place = VirtualAddress::from(&address);
        let known = self.call(py, |inner| inner.segment_table().get(place.region_id).is_some())?;
        if !known {
            return Err(Kind::Input.error(format!("{place} is in no region of this allocator")));
        }
        let found = self.call(py, |inner| inner.physical_address(place))?;
        let text = || format!("the device does not know the physical address of {place}");
        found.ok_or_else(|| Kind::Input.error(text()))
    }

    /// Returns the flat address, as programs and snapshots use it, of an address.
    fn flat_address(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = Address::read)] address: Address,
    ) -> PyResult<u64> {
        let place = VirtualAddress::from(&address);
        let found = self.call(py, |inner| inner.segment_table().get(place.region_id))?;
        let flat = found.and_then(|(_, segment)| segment.base.checked_add(place.offset.get()));
        let text = || format!("{place} is in no region of this allocator");
        flat.ok_or_else(|| Kind::Input.error(text()))
    }

    /// Whether no further region is acquired: all sizes were refused, or there are as many as may be. `trim()` can
    /// change that. After a refusal, a request that finds no room still asks the device, unless `refusal` is "lock".
    #[getter]
    fn regions_locked(&self, py: Python<'_>) -> PyResult<bool> {
        self.call(py, flex::FlexAllocator::regions_locked)
    }

    /// Forgets that the device has refused all sizes of a region, so that it is asked again.
    fn unlock_regions(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, flex::FlexAllocator::unlock_regions)
    }

    /// Allocates and frees as many blocks of one size as given, without Python: for comparison.
    #[pyo3(name = "_allocate_and_free")]
    fn allocate_and_free(&self, py: Python<'_>, size: u64, pairs: u64) -> PyResult<()> {
        let size = Bytes::new(size);
        let pair = |inner: &flex::FlexAllocator| inner.allocate(size).map(drop);
        self.call(py, |inner| (0..pairs).try_for_each(|_| pair(inner)))?.or_raise()
    }

    /// Returns the free and the total memory of the device.
    #[pyo3(name = "_memory_info")]
    fn memory_info(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let info = self.call(py, |inner| inner.device().info())?;
        Ok((info.free.get(), info.total.get()))
    }

    /// Returns the configuration by key, as texts and numbers.
    #[pyo3(name = "_settings")]
    fn settings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let config = self.inner.config();
        let settings = PyDict::new(py);
        let sizes: Vec<_> = config.fallback_sizes.iter().map(|size| size.get()).collect();
        let kinds: Vec<_> = config.own_regions.iter().map(|kind| kind.name()).collect();
        settings.set_item("fallback_sizes", sizes)?;
        settings.set_item("max_regions", config.max_regions)?;
        settings.set_item("alignment", config.alignment.get())?;
        settings.set_item("region", config.region.name)?;
        settings.set_item("block", config.block.name)?;
        settings.set_item("acquire", acquire_text(config.acquire))?;
        settings.set_item("release", release_text(config.release))?;
        settings.set_item("growth", growth_text(config.growth))?;
        settings.set_item("own_regions", kinds)?;
        settings.set_item("history", config.history)?;
        settings.set_item("sizes", sizes_text(config.sizes))?;
        settings.set_item("refusal", refusal_text(config.refusal))?;
        settings.set_item("pools", pools_text(config.pools))?;
        Ok(settings)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.hooks.traverse(&visit)
    }

    fn __clear__(&self) {
        self.hooks.clear();
    }
}

fn acquire_text(acquire: Acquire) -> String {
    match acquire {
        Acquire::Lazy => "lazy".to_owned(),
        Acquire::First => "first".to_owned(),
        Acquire::Eager(count) => format!("eager({count})"),
    }
}

fn release_text(release: Release) -> String {
    match release {
        Release::Never => "never".to_owned(),
        Release::WhenIdle(size) => format!("when_idle({})", size.get()),
    }
}

fn sizes_text(sizes: Sizes) -> &'static str {
    match sizes {
        Sizes::Listed => "listed",
        Sizes::Fitted => "fitted",
        Sizes::All => "all",
    }
}

fn pools_text(pools: Pooling) -> &'static str {
    match pools {
        Pooling::One => "one",
        Pooling::Stream => "stream",
    }
}

fn refusal_text(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Ask => "ask",
        Refusal::Lock => "lock",
    }
}

fn growth_text(growth: Growth) -> String {
    match growth {
        Growth::Fixed => "fixed".to_owned(),
        Growth::Growable(size) => format!("growable({})", size.get()),
        Growth::Recycle(size) => format!("recycle({})", size.get()),
    }
}
