"""What PyTorch's tests of accelerators and of its example device ask for, on this device.

docs/pytorch-coverage.md lists the behaviours with the tests of each, also of those in the other files.
"""

from __future__ import annotations

import copy
import gc
import io
import pickle
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import Script
from torch.utils.data import DataLoader, TensorDataset


def needs(name: str) -> Any:
    """Marks a test of a function that older versions of PyTorch do not have."""
    return pytest.mark.skipif(not hasattr(torch.accelerator, name), reason=f"no torch.accelerator.{name} in this version")


def allocated(index: int = 0) -> int:
    return torch.accelerator.memory_allocated(index)


# ---- The accelerator --------------------------------------------------------------------------


def test_the_device_is_the_accelerator() -> None:
    assert torch.accelerator.is_available() and torch.accelerator.current_accelerator() == torch.device("ahbm")
    assert torch.accelerator.device_count() == torch.ahbm.device_count() == 2
    assert torch._C._get_privateuse1_backend_name() == "ahbm"
    assert torch.get_device_module("ahbm") is torch.ahbm is torch.get_device_module()


def test_the_current_device_follows_the_accelerators_functions() -> None:
    torch.accelerator.set_device_index(1)
    assert torch.accelerator.current_device_index() == torch.ahbm.current_device() == 1
    assert torch.ones(1, device="ahbm").device.index == 1
    torch.accelerator.set_device_index("ahbm:0")
    with torch.accelerator.device_index(1):
        assert torch.accelerator.current_device_index() == 1
        with torch.accelerator.device_index(None):
            assert torch.accelerator.current_device_index() == 1
    assert torch.accelerator.current_device_index() == 0


def test_the_current_device_belongs_to_a_thread() -> None:
    seen = []

    def work() -> None:
        torch.accelerator.set_device_index(1)
        seen.append(torch.ones(1, device="ahbm").device.index)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [1] and torch.accelerator.current_device_index() == 0


@pytest.mark.parametrize("use", [lambda: torch.empty(1, device="ahbm:2"), lambda: torch.accelerator.set_device_index(2)])
def test_a_device_that_is_not_there_is_named(use: Callable[[], object]) -> None:
    with pytest.raises(RuntimeError, match="Device index is 2: expected 0 to 1, since there are 2 devices of type ahbm"):
        use()


@needs("get_device_capability")
def test_the_accelerator_tells_its_types() -> None:
    types = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.int64, torch.complex64, torch.bool} <= types


@needs("Graph")
def test_graphs_are_refused_by_name() -> None:
    with pytest.raises(RuntimeError, match="Graph is not supported on device type: ahbm"):
        torch.accelerator.Graph()


def test_a_default_device_makes_tensors_there(device: str) -> None:
    torch.set_default_device("ahbm")
    try:
        assert torch.ones(2).device == torch.device("ahbm:0") and torch.nn.Linear(2, 2).weight.device.type == "ahbm"
    finally:
        torch.set_default_device(None)
    with torch.device("ahbm:1"):
        assert torch.ones(2).device == torch.device("ahbm:1")


# ---- Memory -----------------------------------------------------------------------------------


def test_the_accelerators_figures_are_exact(device: str) -> None:
    torch.accelerator.empty_cache()
    torch.accelerator.reset_accumulated_memory_stats()
    torch.accelerator.reset_peak_memory_stats()
    reserved, before = torch.accelerator.memory_reserved(), torch.accelerator.memory_stats()
    tensor = torch.ones(256, device=device)
    stats = torch.accelerator.memory_stats()
    assert stats["active_bytes.all.current"] - before["active_bytes.all.current"] == 1024
    assert stats["requested_bytes.all.allocated"] == 1024 and stats["allocation.all.allocated"] == 1
    assert torch.accelerator.max_memory_allocated() == before["allocated_bytes.all.current"] + 1024
    assert torch.accelerator.max_memory_reserved() >= torch.accelerator.memory_reserved() > 0
    del tensor
    stats = torch.accelerator.memory_stats()
    assert stats["active_bytes.all.freed"] == 1024
    assert stats["allocated_bytes.all.current"] == before["allocated_bytes.all.current"]
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_reserved() == reserved


@needs("get_memory_info")
def test_memory_info_counts_what_is_reserved(device: str) -> None:
    free, total = torch.accelerator.get_memory_info()
    assert 0 <= free <= total and total - free == torch.accelerator.memory_reserved()


def test_a_view_keeps_the_memory_and_takes_none(device: str) -> None:
    before = allocated()
    whole = torch.arange(1000.0, device=device)
    held = allocated() - before
    views = [whole[100:200], whole.view(10, 100).t(), whole[::3], whole.unfold(0, 10, 5), whole.as_strided((3,), (7,), 11)]
    assert allocated() - before == held == 4096
    assert all(view.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr() for view in views)
    del whole
    assert allocated() - before == held and views[0][0].item() == 100
    del views
    assert allocated() == before


def test_offsets_that_are_no_multiples_of_a_block_work(device: str) -> None:
    whole = torch.arange(1000, device=device, dtype=torch.uint8)
    for offset in (1, 3, 7, 127, 129):
        part = whole[offset:]
        assert part.data_ptr() - whole.data_ptr() == offset
        assert torch.equal((part + 1).cpu(), torch.arange(offset, 1000, dtype=torch.uint8) + 1)


def test_resizing_keeps_the_elements(device: str) -> None:
    before = allocated()
    tensor = torch.arange(10.0, device=device)
    tensor.resize_(1000)
    assert tensor[:10].tolist() == list(range(10)) and allocated() - before == 4096
    tensor.resize_(5)
    assert tensor.tolist() == list(range(5)) and tensor.untyped_storage().nbytes() == 4000
    tensor.untyped_storage().resize_(0)
    assert allocated() == before
    out = torch.empty(0, device=device)
    torch.add(torch.ones(50, device=device), 1, out=out)
    assert out.shape == (50,) and out.sum().item() == 100


def test_a_thousand_cycles_leave_nothing(device: str) -> None:
    before = torch.accelerator.memory_stats()
    for size in range(1, 1001):
        torch.empty(size, device=device).add_(1)
    after = torch.accelerator.memory_stats()
    for key in ("allocated_bytes.all.current", "active.all.current", "allocation.all.current"):
        assert after[key] == before[key]


def test_two_devices_are_separate(device: str) -> None:
    before = allocated(0), allocated(1)
    one = torch.full((1024,), 1.0, device="ahbm:0")
    two = torch.full((2048,), 2.0, device="ahbm:1")
    assert (allocated(0) - before[0], allocated(1) - before[1]) == (4096, 8192)
    two.zero_()
    assert one.sum().item() == 1024 and one.data_ptr() != two.data_ptr()
    with pytest.raises(RuntimeError, match="found at least two devices, ahbm:0 and ahbm:1"):
        one + two[:1024]
    del one
    assert (allocated(0), allocated(1) - before[1]) == (before[0], 8192)


def test_memory_that_is_too_much_raises_pytorchs_error() -> None:
    with pytest.raises(torch.OutOfMemoryError, match="out of memory: wanted 1.00 TiB"):
        torch.empty(1 << 40, dtype=torch.uint8, device="ahbm")
    assert issubclass(torch.OutOfMemoryError, RuntimeError)


def test_the_host_cannot_read_a_tensors_pointer(script: Script) -> None:
    done = script(
        """
        import ctypes
        tensor = torch.ones(4, device="ahbm")
        print(tensor.data_ptr() > 0, flush=True)
        ctypes.string_at(tensor.data_ptr(), 4)
        """,
        status=-11,
    )
    assert done.stdout.strip() == "True"


# ---- Pinned host memory -----------------------------------------------------------------------


def test_host_memory_is_pinned_also_in_parts(device: str) -> None:
    plain, pinned = torch.arange(100.0), torch.arange(100.0).pin_memory()
    assert not plain.is_pinned() and pinned.is_pinned() and pinned[37:41].is_pinned()
    assert torch.equal(plain, pinned) and pinned.pin_memory() is pinned
    assert torch.empty(4, pin_memory=True).is_pinned() and pinned.untyped_storage().is_pinned(device)
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(2, device=device).pin_memory()


@needs("empty_host_cache")
def test_pinned_memory_is_cached_and_given_back() -> None:
    torch.accelerator.empty_host_cache()
    before = torch.ahbm.host_memory_stats()
    first = torch.empty(1 << 16, dtype=torch.uint8, pin_memory=True)
    place = first.data_ptr()
    del first
    assert torch.empty(1 << 16, dtype=torch.uint8, pin_memory=True).data_ptr() == place
    assert torch.ahbm.host_memory_stats()["allocated_bytes.current"] - before["allocated_bytes.current"] == 1 << 16
    torch.accelerator.empty_host_cache()
    assert torch.ahbm.host_memory_stats()["allocated_bytes.current"] == before["allocated_bytes.current"]


def test_pinned_memory_of_a_copy_waits_for_its_stream(device: str) -> None:
    pinned = torch.ones(1000, pin_memory=True)
    stream = torch.Stream(device)
    with stream:
        torch.ahbm._sleep(1000)
        tensor = pinned.to(device, non_blocking=True)
    place = pinned.data_ptr()
    del pinned
    other = torch.empty(1000, pin_memory=True)
    assert other.data_ptr() != place, "the stream may still read it"
    stream.synchronize()
    later = [torch.empty(1000, pin_memory=True).data_ptr(), torch.empty(1000, pin_memory=True)]
    assert place in (later[0], later[1].data_ptr()) and tensor.sum().item() == 1000


def test_a_data_loader_pins_its_batches(device: str) -> None:
    data = TensorDataset(torch.arange(32.0).view(16, 2), torch.arange(16))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows, labels in DataLoader(data, batch_size=4, pin_memory=True):
            assert rows.is_pinned() and labels.is_pinned()
            assert torch.equal(rows.to(device, non_blocking=True).cpu(), rows)


# ---- Streams and events -----------------------------------------------------------------------


def test_streams_are_compared_by_device_and_number() -> None:
    one, two = torch.Stream("ahbm:0"), torch.Stream("ahbm:0")
    again = torch.Stream(stream_id=one.stream_id, device_index=0, device_type=one.device_type)
    assert one == again and hash(one) == hash(again) and one != two and one.device == torch.device("ahbm:0")
    assert torch.accelerator.current_stream().stream_id == torch.ahbm.default_stream().stream_id == 0


def test_contexts_of_streams_nest_and_change_devices(device: str) -> None:
    one, two = torch.Stream("ahbm:0"), torch.Stream("ahbm:1")
    with one:
        assert torch.accelerator.current_stream() == one
        with two:
            assert torch.accelerator.current_stream() == two and torch.accelerator.current_device_index() == 1
            with torch.Stream("ahbm:0"):
                assert torch.accelerator.current_device_index() == 0
        assert torch.accelerator.current_stream() == one and torch.accelerator.current_device_index() == 0
    assert torch.accelerator.current_stream() == torch.ahbm.default_stream()
    with pytest.raises(ValueError), one:
        raise ValueError
    assert torch.accelerator.current_stream() == torch.ahbm.default_stream()


def test_an_event_orders_and_measures(device: str) -> None:
    stream = torch.Stream(device)
    begin, end = torch.Event(device, enable_timing=True), torch.Event(device, enable_timing=True)
    begin.record(stream)
    with stream:
        torch.ahbm._sleep(3_000_000)
    end.record(stream)
    assert not end.query() and not stream.query()
    torch.accelerator.current_stream().wait_event(end)
    end.synchronize()
    assert end.query() and stream.query() and begin.elapsed_time(end) == 3.0
    assert end.device == torch.device("ahbm:0") and end.event_id


def test_an_event_without_timing_has_no_time(device: str) -> None:
    events = [torch.Event(device), torch.Event(device)]
    for event in events:
        event.record()
    with pytest.raises((RuntimeError, ValueError), match="enable_timing=True|timing"):
        events[0].elapsed_time(events[1])


def test_an_event_that_was_not_recorded_is_complete(device: str) -> None:
    event = torch.Event(device)
    assert event.query()
    event.synchronize()
    event.wait(torch.accelerator.current_stream())


def test_synchronize_passes_all_streams(device: str) -> None:
    streams = [torch.Stream(device) for _ in range(3)]
    for number, stream in enumerate(streams):
        with stream:
            torch.ahbm._sleep(1000 * (number + 1))
    assert not any(stream.query() for stream in streams)
    torch.accelerator.synchronize()
    assert all(stream.query() for stream in streams)


# ---- Generators -------------------------------------------------------------------------------


def test_a_generator_of_the_device_draws_the_cpus_numbers(device: str) -> None:
    generator = torch.Generator(device).manual_seed(5)
    assert generator.device == torch.device("ahbm:0") and generator.initial_seed() == 5
    drawn = torch.randn(10, device=device, generator=generator)
    assert torch.equal(drawn.cpu(), torch.randn(10, generator=torch.Generator().manual_seed(5)))
    state = generator.get_state()
    again = torch.rand(5, device=device, generator=generator)
    generator.set_state(state)
    assert torch.equal(torch.rand(5, device=device, generator=generator), again)
    assert state.device.type == "cpu" and state.dtype == torch.uint8


def test_a_seed_reaches_every_device_and_states_are_restored(device: str) -> None:
    torch.manual_seed(9)
    first = [torch.rand(3, device=f"ahbm:{index}").cpu() for index in range(2)]
    assert torch.equal(first[0], first[1])
    with torch.random.fork_rng(devices=[0], device_type="ahbm"):
        inside = torch.rand(3, device=device)
    assert torch.equal(torch.rand(3, device=device), inside)


def test_a_generator_of_another_device_is_refused(device: str) -> None:
    with pytest.raises(RuntimeError, match="(?i)generator|device"):
        torch.rand(3, device=device, generator=torch.Generator())


# ---- Autograd ---------------------------------------------------------------------------------


def test_backward_runs_on_a_thread_of_the_device(device: str) -> None:
    threads = set()

    class Note(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, value: torch.Tensor) -> torch.Tensor:
            return value.clone()

        @staticmethod
        def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
            threads.add((threading.get_ident(), torch.accelerator.current_device_index()))
            return gradient

    leaf = torch.ones(3, device="ahbm:1", requires_grad=True)
    Note.apply(leaf).sum().backward()
    assert leaf.grad.tolist() == [1.0] * 3 and {index for _thread, index in threads} == {1}
    assert threading.get_ident() not in {thread for thread, _index in threads}


def test_gradients_pass_between_devices(device: str) -> None:
    leaf = torch.ones(3, requires_grad=True)
    (leaf.to("ahbm:0") * 2).to("ahbm:1").mul(3).cpu().sum().backward()
    assert leaf.grad.tolist() == [6.0] * 3 and leaf.grad.device.type == "cpu"


def test_backward_uses_the_stream_of_forward(device: str) -> None:
    seen = []
    stream = torch.Stream(device)
    leaf = torch.ones(3, device=device, requires_grad=True)
    with stream:
        result = leaf * 2
        result.register_hook(lambda gradient: seen.append(torch.accelerator.current_stream().stream_id))
        total = result.sum()
    total.backward()
    assert seen == [stream.stream_id]


def test_hooks_of_saved_tensors_can_keep_them_on_the_host(device: str) -> None:
    before = allocated()
    leaf = torch.ones(1 << 16, device=device, requires_grad=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        result = leaf.sin().sin().sin()
    assert allocated() - before == 2 * (1 << 18), "the leaf and the result"
    result.sum().backward()
    assert leaf.grad is not None


def test_function_transforms_work(device: str) -> None:
    rows = torch.arange(6.0, device=device).view(2, 3)
    assert torch.equal(torch.vmap(lambda row: row.sum())(rows).cpu(), torch.tensor([3.0, 12.0]))
    gradient = torch.func.grad(lambda value: (value**3).sum())(rows)
    assert torch.equal(gradient.cpu(), 3 * rows.cpu() ** 2)


# ---- Copies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("non_blocking", [False, True])
def test_copies_go_every_way(device: str, non_blocking: bool) -> None:
    host = torch.randn(7, 5).t()
    one = host.to("ahbm:0", non_blocking=non_blocking)
    two = one.to("ahbm:1", non_blocking=non_blocking)
    assert one.stride() == host.stride() and two.device.index == 1 and one.device.index == 0
    target = torch.empty(5, 7, dtype=torch.float64)
    target.copy_(two, non_blocking=non_blocking)
    torch.accelerator.synchronize(1)
    assert torch.equal(target, host.double())
    assert one.to("ahbm:0") is one and one.to("ahbm:0", copy=True) is not one
    assert torch.equal(one.clone().cpu(), host) and torch.equal(one.to(torch.int32).cpu(), host.to(torch.int32))


def test_copies_resolve_bits_strides_and_broadcasts(device: str) -> None:
    host = torch.randn(4, dtype=torch.complex64)
    there = host.to(device)
    assert torch.equal(there.conj().cpu(), host.conj()) and torch.equal(there.conj().imag.cpu(), host.conj().imag)
    target = torch.zeros(3, 4, dtype=torch.complex64, device=device)
    target.copy_(host.to(device).conj())
    assert torch.equal(target.cpu(), host.conj().expand(3, 4))
    target[:, ::2] = 0
    assert target.cpu()[:, ::2].abs().sum() == 0 and target.cpu()[:, 1::2].abs().sum() > 0


def test_a_tensor_of_the_host_is_refused_unless_it_is_a_number(device: str) -> None:
    there = torch.ones(3, device=device)
    assert (there + torch.tensor(2.0)).tolist() == [3.0] * 3
    with pytest.raises(RuntimeError, match="found at least two devices, ahbm:0 and cpu"):
        there + torch.ones(3)
    assert there[torch.tensor([0, 2])].device == there.device, "indices may be on the host"
    with pytest.raises(TypeError, match="can't convert ahbm:0 device type tensor to numpy"):
        there.numpy()


# ---- Storages and files -----------------------------------------------------------------------


def test_storages_know_their_device(device: str) -> None:
    storage = torch.ones(4, device="ahbm:1").untyped_storage()
    assert storage.device == torch.device("ahbm:1") and storage.nbytes() == 16 and storage.is_ahbm
    assert storage.cpu().device.type == "cpu" and storage.cpu().ahbm(0).device == torch.device("ahbm:0")
    tensor = torch.empty(0, device="ahbm:1").set_(storage, 1, (2,))
    assert tensor.tolist() == [1.0, 1.0]


def test_methods_have_the_devices_name(device: str) -> None:
    assert torch.ones(2).ahbm().is_ahbm and not torch.ones(2).is_ahbm
    assert torch.ones(2).ahbm(1).device.index == 1 and torch.nn.Linear(2, 2).ahbm().weight.is_ahbm
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)]).ahbm()
    assert packed.data.is_ahbm


def test_files_keep_devices_and_shared_storages(device: str) -> None:
    whole = torch.arange(6.0, device="ahbm:1")
    file = io.BytesIO()
    torch.save({"whole": whole, "part": whole[2:]}, file)

    def load(**given: Any) -> dict[str, torch.Tensor]:
        file.seek(0)
        return torch.load(file, **given)

    loaded = load()
    assert loaded["whole"].device == torch.device("ahbm:1")
    loaded["part"].zero_()
    assert loaded["whole"].tolist() == [0.0, 1.0, 0.0, 0.0, 0.0, 0.0], "one storage"
    assert load(map_location="cpu")["whole"].device.type == "cpu"
    assert load(map_location="ahbm:0")["part"].device == torch.device("ahbm:0")
    assert load(map_location={"ahbm:1": "ahbm:0"})["part"].device == torch.device("ahbm:0")
    assert torch.equal(pickle.loads(pickle.dumps(whole)).cpu(), whole.cpu())


def test_a_file_from_a_device_that_is_not_there_says_so(device: str) -> None:
    file = io.BytesIO()
    torch.save(torch.ones(2, device="ahbm:1"), file)
    data = file.getvalue().replace(b"ahbm:1", b"ahbm:7")
    with pytest.raises(RuntimeError, match="(?s)ahbm.*7|7.*ahbm|index 7|Device index is 7"):
        torch.load(io.BytesIO(data))


def test_modules_and_tensors_are_copied_deeply(device: str) -> None:
    model = torch.nn.Linear(3, 3).to(device)
    twin = copy.deepcopy(model)
    twin.weight.data.zero_()
    assert model.weight.abs().sum().item() > 0 and twin.weight.device == model.weight.device
    state = {name: value.cpu() for name, value in model.state_dict().items()}
    twin.load_state_dict(state)
    assert torch.equal(twin.weight, model.weight)


def test_modules_without_memory_get_some(device: str) -> None:
    model = torch.nn.Linear(3, 3, device="meta").to_empty(device=device)
    assert model.weight.device == torch.device("ahbm:0") and torch.ones(3, device=device).to("meta").is_meta


def test_tensors_without_memory_are_followed_without_any(device: str) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    before = torch.accelerator.memory_stats()["allocation.all.allocated"]
    with FakeTensorMode():
        result = torch.empty(1 << 40, device=device) + 1
    assert result.device == torch.device("ahbm:0") and result.shape == (1 << 40,)
    assert torch.accelerator.memory_stats()["allocation.all.allocated"] == before


def test_text_shows_values_and_device(device: str) -> None:
    assert repr(torch.tensor([1.5, 2.0], device="ahbm:1")) == "tensor([1.5000, 2.0000], device='ahbm:1')"
    assert str(torch.device("ahbm", 1)) == "ahbm:1"


# ---- Other frameworks and processes -----------------------------------------------------------


def test_dlpack_passes_memory_without_a_copy(device: str) -> None:
    tensor = torch.arange(4.0, device=device)
    other = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(tensor))
    other[0] = 7
    assert tensor[0].item() == 7 and other.data_ptr() == tensor.data_ptr() and other.device == tensor.device
    del tensor
    gc.collect()
    assert other.tolist() == [7.0, 1.0, 2.0, 3.0]
    # PyTorch itself knows the devices of the protocol by their names.
    with pytest.raises(ValueError, match="Unknown device type ahbm for Dlpack"):
        torch.from_dlpack(other)


def test_tensors_are_not_shared_with_processes(device: str) -> None:
    from multiprocessing.reduction import ForkingPickler

    with pytest.raises(RuntimeError, match="only available on CPU"):
        ForkingPickler.dumps(torch.ones(3, device=device))


# ---- Mixed precision --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_chooses_types_by_operator(device: str, dtype: torch.dtype) -> None:
    left, right = torch.randn(4, 4, device=device), torch.randn(4, 4, device=device)
    with torch.autocast(device, dtype=dtype):
        assert torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == dtype
        product = left @ right
        assert product.dtype == dtype and product.softmax(0).dtype == torch.float32
        assert torch.cat([product, left]).dtype == torch.float32
        with torch.autocast(device, enabled=False):
            assert (left @ right).dtype == torch.float32
    assert not torch.is_autocast_enabled(device)
    assert torch.equal(product.cpu(), left.cpu().to(dtype) @ right.cpu().to(dtype))


def test_autocast_trains_as_on_the_cpu_in_the_same_type(device: str) -> None:
    def gradient(where: str) -> torch.Tensor:
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 8)
        model = model.to(where)
        with torch.autocast(where, dtype=torch.bfloat16):
            loss = torch.nn.functional.linear(torch.ones(2, 8, device=where), model.weight).sum()
        loss.backward()
        return model.weight.grad.cpu()

    assert torch.equal(gradient(device), gradient("cpu"))


def test_a_scaler_skips_steps_that_overflow(device: str) -> None:
    weight = torch.ones(3, device=device, requires_grad=True)
    optimizer, scaler = torch.optim.SGD([weight], 0.5), torch.amp.GradScaler(device, init_scale=4.0)
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [1.0] * 3 and scaler.get_scale() == 2.0
    optimizer.zero_grad()
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    assert weight.tolist() == [0.5] * 3


# ---- Operators --------------------------------------------------------------------------------


def test_layouts_that_the_device_lacks_are_refused_by_name(device: str) -> None:
    dense = torch.ones(3, device=device)
    for use in (dense.to_sparse, lambda: torch.quantize_per_tensor(dense, 0.1, 0, torch.qint8)):
        with pytest.raises(NotImplementedError, match="dense tensors only"):
            use()


def test_results_of_operators_are_memory_of_the_device_without_copies(device: str) -> None:
    torch.accelerator.reset_accumulated_memory_stats()
    left, right = torch.ones(1000, device=device), torch.ones(1000, device=device)
    result = left + right
    stats = torch.accelerator.memory_stats()
    assert stats["allocation.all.allocated"] == 3 and stats["allocated_bytes.all.allocated"] == 3 * 4096
    left.add_(right)
    assert torch.accelerator.memory_stats()["allocation.all.allocated"] == 3 and result.sum().item() == 2000


def test_an_operator_of_a_library_falls_back_to_its_cpu_kernel(device: str, library: torch.library.Library) -> None:
    library.define("twice(Tensor self) -> Tensor")
    library.impl("twice", lambda tensor: tensor * 2, "CPU")
    library.define("nowhere(Tensor self) -> Tensor")
    result = torch.ops.cubeyard_tests.twice(torch.ones(3, device=device))
    assert result.device == torch.device("ahbm:0") and result.tolist() == [2.0] * 3
    with pytest.raises(NotImplementedError, match="cubeyard_tests::nowhere is not implemented for device ahbm"):
        torch.ops.cubeyard_tests.nowhere(torch.ones(3, device=device))
    library.impl("nowhere", lambda tensor: tensor + 1, "PrivateUse1")
    assert torch.ops.cubeyard_tests.nowhere(torch.ones(3, device=device)).tolist() == [2.0] * 3


def test_a_copy_on_write_ends_at_the_first_write(device: str) -> None:
    tensor = torch.ones(3, device=device)
    clone = torch._lazy_clone(tensor)
    clone.add_(1)
    assert tensor.tolist() == [1.0] * 3 and clone.tolist() == [2.0] * 3


def test_checkpoints_compute_activations_again(device: str) -> None:
    from torch.utils.checkpoint import checkpoint

    masks: list[torch.Tensor] = []

    def drop(value: torch.Tensor) -> torch.Tensor:
        result = torch.nn.functional.dropout(value, 0.5)
        masks.append(result.detach() != 0)
        return result

    leaf = torch.ones(64, device=device, requires_grad=True)
    checkpoint(drop, leaf, use_reentrant=False).sum().backward()
    # What is computed again has the same random numbers, by the state of the device.
    assert torch.equal(leaf.grad != 0, masks[0]) and 0 < masks[0].sum().item() < 64


# ---- The profiler -----------------------------------------------------------------------------


def test_the_profiler_sees_operators_and_memory(device: str) -> None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        tensor = torch.ones(1000, device=device)
        del tensor
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    assert [event.nbytes() for event in events] == [4096, -4096]
    assert {event.device_type() for event in events} == {torch._C._autograd.DeviceType.PrivateUse1}
    assert [event.device_memory_usage for event in profiler.events() if event.name == "aten::ones"] == [4096]


# ---- Processes --------------------------------------------------------------------------------


def test_workers_of_a_data_loader_are_forked_beside_the_device(script: Script) -> None:
    script(
        """
        from torch.utils.data import DataLoader, TensorDataset
        used = torch.ones(3, device="ahbm")
        data = TensorDataset(torch.arange(64.0))
        loader = DataLoader(data, batch_size=8, num_workers=2, pin_memory=True, multiprocessing_context="fork")
        total = sum((batch.to("ahbm", non_blocking=True)).sum() for [batch] in loader)
        assert total.item() == sum(range(64)) and used.sum().item() == 3
        """,
        anew=True,
    )
