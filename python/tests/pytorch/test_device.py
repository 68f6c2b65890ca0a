"""The module `torch.ahbm`: devices, the current one, random numbers, forks, and `torch.compile`."""

from __future__ import annotations

import importlib
import threading

import pytest
import torch
from conftest import Script

import cubeyard.torch
from cubeyard.errors import InputError


def test_the_module_is_that_of_the_package() -> None:
    assert torch.ahbm is cubeyard.torch
    assert torch.get_device_module("ahbm") is torch.ahbm
    assert all(hasattr(torch.ahbm, name) for name in torch.ahbm.__all__)
    assert importlib.import_module("torch.ahbm.memory") is cubeyard.torch.memory


def test_devices_are_the_sips() -> None:
    count = torch.ahbm.device_count()
    assert count == torch.accelerator.device_count() >= 2
    assert torch.ahbm.is_available() and torch.accelerator.current_accelerator() == torch.device("ahbm")
    properties = [torch.ahbm.get_device_properties(index) for index in range(count)]
    assert [one.sip for one in properties] == list(range(count))
    assert len({one.name for one in properties}) == count == len({torch.ahbm.get_device_name(i) for i in range(count)})
    for one in properties:
        assert one.total_memory == torch.ahbm.mem_get_info(one.sip)[1] > 0
        assert one.mode in {"PF", "VF"} and one.bounded_by


def test_the_current_device_is_set_and_restored() -> None:
    assert torch.ahbm.current_device() == 0
    with torch.ahbm.device(1):
        assert torch.ahbm.current_device() == 1 == torch.accelerator.current_device_index()
        assert torch.empty(1, device="ahbm").device == torch.device("ahbm:1")
        with torch.ahbm.device("ahbm:0"), torch.ahbm.device(torch.device("ahbm", 1)):
            assert torch.ahbm.current_device() == 1
        with torch.ahbm.device(None), torch.ahbm.device(-1):
            assert torch.ahbm.current_device() == 1
    assert torch.ahbm.current_device() == 0
    with torch.ahbm.device_of(torch.empty(1, device="ahbm:1")):
        assert torch.ahbm.current_device() == 1
    with torch.ahbm.device_of(torch.empty(1)):
        assert torch.ahbm.current_device() == 0
    with pytest.raises(ZeroDivisionError), torch.ahbm.device(1):
        raise ZeroDivisionError
    assert torch.ahbm.current_device() == 0
    torch.ahbm.set_device(1)
    found = []
    thread = threading.Thread(target=lambda: found.append(torch.ahbm.current_device()))
    thread.start()
    thread.join()
    assert found == [0] and torch.ahbm.current_device() == 1, "threads have devices of their own"
    torch.ahbm.set_device(0)


@pytest.mark.parametrize(
    ("device", "text"),
    [
        (99, "device is 99: expected 0 to"),
        ("ahbm:99", "device is 99: expected 0 to"),
        (-3, "device is -3: expected 0 to"),
        ("cpu", "device is 'cpu': expected a device of type 'ahbm'"),
        (1.5, "device is 1.5: expected a number"),
        (True, "device is True: expected a number"),
    ],
)
def test_a_device_that_cannot_be_is_named(device: object, text: str) -> None:
    for function in (torch.ahbm.set_device, torch.ahbm.memory_stats, torch.ahbm.get_device_name, torch.ahbm.synchronize):
        with pytest.raises(InputError, match=text):
            function(device)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CUBEYARD_SIPS", "many"),
        ("CUBEYARD_DEVICE_MEMORY", "lots"),
        ("CUBEYARD_ALLOC_CONF", "block:worst-fit"),
        ("FLEX_DEVICE", "XF"),
        ("CUBEYARD_TOPOLOGY", "no-such-file.yaml"),
    ],
)
def test_an_environment_that_cannot_be_is_told_at_the_first_use(script: Script, variable: str, value: str) -> None:
    program = """
        torch.manual_seed(0)
        assert not torch.ahbm.is_available() and not torch.accelerator.is_available()
        assert torch.compile(lambda x: x + 1, backend="aot_eager")(torch.ones(1)) == 2
        for use in (lambda: torch.ones(2, device="ahbm"), torch.ahbm.memory_stats, torch.ahbm.device_count):
            try:
                use()
            except Exception as error:
                print(error)
    """
    told = script(program, **{variable: value}).stdout.splitlines()
    assert len(told) == 3 and all(line.startswith(f"{variable}: ") and value.split(":")[-1] in line for line in told), told


def test_seeds_give_the_same_numbers_again() -> None:
    torch.manual_seed(7)
    assert [torch.ahbm.default_generators[index].initial_seed() for index in range(2)] == [7, 7]
    first = [torch.randn(5, device=f"ahbm:{index}") for index in range(2)]
    torch.ahbm.manual_seed_all(7)
    assert all(torch.equal(torch.randn(5, device=one.device), one) for one in first)
    torch.ahbm.manual_seed(8)
    assert torch.ahbm.initial_seed() == 8 and torch.ahbm.default_generators[1].initial_seed() == 7
    state = torch.ahbm.get_rng_state()
    numbers = torch.rand(3, device="ahbm")
    assert not torch.equal(torch.rand(3, device="ahbm"), numbers)
    torch.ahbm.set_rng_state(state)
    assert torch.equal(torch.rand(3, device="ahbm"), numbers)
    states = torch.ahbm.get_rng_state_all()
    assert len(states) == torch.ahbm.device_count()
    numbers = torch.rand(3, device="ahbm:1")
    torch.ahbm.set_rng_state_all(states)
    assert torch.equal(torch.rand(3, device="ahbm:1"), numbers)
    assert torch.ahbm.seed() == torch.ahbm.initial_seed()
    with torch.random.fork_rng(devices=[0], device_type="ahbm"):
        inside = torch.rand(3, device="ahbm")
    assert torch.equal(torch.rand(3, device="ahbm"), inside)
    with pytest.raises(IndexError):
        torch.ahbm.default_generators[99]


def test_a_seed_waits_for_the_first_use(script: Script) -> None:
    script("""
        torch.manual_seed(5)
        assert not torch.ahbm.is_initialized()
        first = torch.rand(3, device="ahbm:1")
        assert torch.ahbm.is_initialized() and torch.ahbm.initial_seed() == 5
        torch.manual_seed(5)
        assert torch.equal(first, torch.rand(3, device="ahbm:1"))
    """)


FORK = """
    import os, sys
    {before}
    child = os.fork()
    if child == 0:
        try:
            {inside}
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr)
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    {after}
"""


def test_a_forked_process_cannot_use_a_device_that_its_parent_used(script: Script) -> None:
    inside = """
            assert torch.ahbm._is_in_bad_fork() and not torch.ahbm.is_available() and not torch.ahbm.is_initialized()
            torch.manual_seed(1)
            for use in (lambda: torch.empty(2, device="ahbm"), torch.ahbm.memory_stats, lambda: x + 1):
                try:
                    use()
                except Exception as error:
                    assert "fork" in str(error), error
                else:
                    raise AssertionError("it worked")
            del x
    """
    program = FORK.format(before='x = torch.ones(2, device="ahbm")', inside=inside.strip(), after="assert x.sum() == 2")
    script(program, anew=True)


@pytest.mark.parametrize("looking", ["pass", "assert torch.ahbm.is_available() and torch.accelerator.device_count()"])
def test_a_forked_process_can_use_a_device_that_its_parent_has_only_looked_for(script: Script, looking: str) -> None:
    inside = 'assert torch.ones(2, device="ahbm").sum().item() == 2 and torch.ahbm.initial_seed() == 3'
    after = 'assert torch.ones(2, device="ahbm").sum().item() == 2'
    script(FORK.format(before=f"torch.manual_seed(3); {looking}", inside=inside, after=after), anew=True)


def test_compile_with_aot_eager_gives_the_same() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 1)).to("ahbm")
    x = torch.randn(4, 8, device="ahbm")
    expected = model(x).square().sum()
    expected.backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    found = torch.compile(model, backend="aot_eager", fullgraph=True)(x).square().sum()
    found.backward()
    assert torch.equal(found, expected)
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert parameter.grad.device.type == "ahbm" and torch.equal(parameter.grad, gradient)


def test_dynamo_knows_the_device() -> None:
    from torch._dynamo.device_interface import get_interface_for_device

    interface = get_interface_for_device("ahbm")
    assert get_interface_for_device("ahbm:1") is interface
    assert interface.is_available() and interface.device_count() == torch.ahbm.device_count()
    assert interface.current_device() == 0 and interface.Stream is torch.ahbm.Stream
    with interface.device(1):
        assert interface.current_device() == 1 == interface.exchange_device(0)
        assert interface.maybe_exchange_device(1) == 0


def test_inductor_compiles_for_the_device_and_for_the_cpu() -> None:
    @torch.compile
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1

    assert torch.equal(twice(torch.ones(3, device="ahbm")).cpu(), torch.full((3,), 3.0))
    assert torch.equal(twice(torch.ones(3)), torch.full((3,), 3.0))


def test_types_for_autocast() -> None:
    assert torch.bfloat16 in torch.ahbm.get_amp_supported_dtype() and torch.ahbm.is_bf16_supported()
