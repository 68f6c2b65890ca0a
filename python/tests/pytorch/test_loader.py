"""The loader: the shim that is found or compiled once, and what the user is told where that cannot be."""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping

import pytest
import torch
from template import Template

from cubeyard import doctor
from cubeyard.errors import TorchDeviceError
from cubeyard.torch import _build, _loader, _shims

SOURCE = """
    #include "answer.h"
    extern "C" __attribute__((visibility("default"))) int answer() { return ANSWER; }
"""


@pytest.fixture
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(_shims, "SHIPPED", tmp_path / "shims")
    return tmp_path / "cache" / "cubeyard" / "torch"


def target(tmp_path: pathlib.Path, **sources: str) -> _build.Target:
    """A shim that takes a second to compile: of one file, and of a header of the native module."""
    folder = tmp_path / "csrc"
    folder.mkdir(exist_ok=True)
    for name, text in (sources or {"answer": SOURCE}).items():
        (folder / f"{name}.cpp").write_text(textwrap.dedent(text))
    home = pathlib.Path(torch.__file__).parent
    abi = bool(torch._C._GLIBCXX_USE_CXX11_ABI)
    return _build.Target(torch.__version__, home, abi, "1.2.3", folder, {"answer.h": "#define ANSWER 42\n"})


def python(script: str, environment: Mapping[str, str] | None = None, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    given = {**os.environ, **(environment or {})}
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=300)


def test_a_shim_is_compiled_once_with_one_line_on_standard_error(
    tmp_path: pathlib.Path, cache: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wanted = target(tmp_path)
    shim = _build.find(wanted)
    told = capfd.readouterr()
    assert told.out == "" and len(told.err.splitlines()) == 1
    assert told.err.startswith(f"cubeyard: compiling the device for torch {torch.__version__}, about ")
    assert str(shim.parent) in told.err and shim.parent.parent == cache
    assert shim.parent.name.startswith(f"{torch.__version__}-1.2.3-")
    assert ctypes.CDLL(str(shim)).answer() == 42
    when = shim.stat().st_mtime_ns
    assert _build.find(wanted) == shim and shim.stat().st_mtime_ns == when
    assert capfd.readouterr().err == ""
    assert sorted(path.name for path in shim.parent.iterdir()) == ["build.log", "cubeyard_torch.so", "lock"]


def test_another_source_header_flag_or_version_is_another_shim(tmp_path: pathlib.Path, cache: pathlib.Path) -> None:
    from dataclasses import replace

    first = target(tmp_path)
    paths = {first.cached()}
    paths.add(replace(first, torch_version="2.11.0").cached())
    paths.add(replace(first, version="1.2.4").cached())
    paths.add(replace(first, cxx11_abi=not first.cxx11_abi).cached())
    paths.add(replace(first, headers={"answer.h": "#define ANSWER 43\n"}).cached())
    paths.add(target(tmp_path, answer=SOURCE + "\n").cached())
    assert len(paths) == 6


@pytest.mark.parametrize("damage", ["cut off", "one byte", "without a seal", "empty"])
def test_a_damaged_shim_is_compiled_anew(
    tmp_path: pathlib.Path, cache: pathlib.Path, capfd: pytest.CaptureFixture[str], damage: str
) -> None:
    wanted = target(tmp_path)
    shim = _build.find(wanted)
    good = shim.read_bytes()
    middle = len(good) // 2
    bad = {
        "cut off": good[:middle],
        "one byte": good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :],
        "without a seal": good.rpartition(_shims.SEAL)[0],
        "empty": b"",
    }[damage]
    shim.write_bytes(bad)
    capfd.readouterr()
    assert _build.find(wanted) == shim and _shims.sealed_name(shim) == wanted.label().name and len(shim.read_bytes()) == len(good)
    told = capfd.readouterr().err.splitlines()
    assert len(told) == 2 and told[0] == f"cubeyard: the compiled device {shim} is damaged and is compiled again", told
    assert ctypes.CDLL(str(shim)).answer() == 42


def test_import_torch_survives_a_shim_that_is_cut_off(tmp_path: pathlib.Path) -> None:
    """A disk that ran full had left half of a library: every `import torch` ended with SIGBUS."""
    whole = pathlib.Path(str(_loader.shim))
    folder = tmp_path / "cubeyard" / "torch" / whole.parent.name
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    (folder / whole.name).write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    (folder / whole.name).chmod(0o755)
    done = python("import torch; print(torch.ones(2).sum().item())", {"XDG_CACHE_HOME": str(tmp_path), "CXX": "no-compiler"})
    assert done.returncode == 0 and done.stdout == "2.0\n", (done.returncode, done.stderr)
    assert "is damaged and is compiled again" in done.stderr
    assert "CXX is 'no-compiler'" in first_uses({"XDG_CACHE_HOME": str(tmp_path), "CXX": "no-compiler"})


@pytest.mark.parametrize("part", ["the file", "its folder"])
@pytest.mark.parametrize("fault", ["group", "others", "owner"])
def test_a_shim_that_others_can_change_is_not_loaded(
    tmp_path: pathlib.Path, cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch, part: str, fault: str
) -> None:
    wanted = target(tmp_path)
    shim = _build.find(wanted)
    path = shim if part == "the file" else shim.parent
    mode = path.stat().st_mode & 0o777
    assert mode & 0o022 == 0, "it is made so, whatever the mask"
    if fault == "owner":
        if os.geteuid() == 0:
            os.chown(path, 12345, -1)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: 12345)
    else:
        path.chmod(mode | (0o020 if fault == "group" else 0o002))
    with pytest.raises(TorchDeviceError) as raised:
        _build.find(wanted)
    said = str(raised.value)
    assert f"others can change {path}: it belongs to user {path.stat().st_uid} and has mode" in said
    assert "expected user" in said and "set XDG_CACHE_HOME to a folder of your own" in said


def test_a_shim_is_made_for_its_owner_alone_whatever_the_mask(tmp_path: pathlib.Path, cache: pathlib.Path) -> None:
    before = os.umask(0)
    try:
        shim = _build.find(target(tmp_path))
    finally:
        os.umask(before)
    assert shim.stat().st_mode & 0o022 == 0 and shim.parent.stat().st_mode & 0o077 == 0
    assert _build.find(target(tmp_path)) == shim


def test_the_last_errors_of_the_compiler_are_told_and_it_is_not_tried_again(
    tmp_path: pathlib.Path, cache: pathlib.Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = target(tmp_path, good=SOURCE, wrong="int f() { return missing_name; }")
    with pytest.raises(TorchDeviceError, match="missing_name") as raised:
        _build.find(wanted)
    log = pathlib.Path(raised.value.details["log"])
    assert str(log) in str(raised.value) and "missing_name" in log.read_text()
    assert "python -m cubeyard.torch build" in str(raised.value)
    assert "compiling" in capfd.readouterr().err
    with pytest.raises(TorchDeviceError, match=r"(?s)failed before.*missing_name"):
        _build.find(wanted)
    assert capfd.readouterr().err == "", "nothing is compiled"
    with pytest.raises(TorchDeviceError, match="missing_name"):
        _build.find(wanted, again=True)
    assert "compiling" in capfd.readouterr().err
    wrapper = tmp_path / "another-compiler"
    wrapper.write_text('#!/bin/sh\nexec c++ "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CXX", str(wrapper))
    with pytest.raises(TorchDeviceError, match="missing_name"):
        _build.find(wanted)
    assert "compiling" in capfd.readouterr().err, "another compiler is tried"


def test_two_processes_compile_once(template: Template, tmp_path: pathlib.Path) -> None:
    calls = tmp_path / "calls"
    wrapper = tmp_path / "slow-compiler"
    wrapper.write_text(f'#!/bin/sh\necho called >> {calls}\nsleep 1\nexec c++ "$@"\n')
    wrapper.chmod(0o755)
    script = """
        import json, os, pathlib, sys
        from cubeyard.torch import _build
        given = json.loads(sys.argv[1])
        os.environ.update(given[0])
        target = _build.Target(given[1], pathlib.Path(given[2]), True, "1", pathlib.Path(given[3]), given[4])
        print(_build.find(target))
    """
    wanted = target(tmp_path)
    environment = {"CXX": str(wrapper), "XDG_CACHE_HOME": str(tmp_path)}
    given = [environment, wanted.torch_version, str(wanted.torch), str(wanted.sources), dict(wanted.headers)]
    running = [template.start(tmp_path, textwrap.dedent(script), json.dumps(given)) for _ in range(2)]
    done = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0, 0], done
    assert done[0][0] == done[1][0] != ""
    assert calls.read_text().splitlines() == ["called"], "all files are one unit"
    told = sorted(line for _, text in done for line in text.splitlines() if line.startswith("cubeyard: "))
    assert len(told) in {1, 2} and told[0].startswith("cubeyard: compiling")
    assert all(line.startswith("cubeyard: waiting for another process") for line in told[1:])


def test_a_lock_ends_with_its_holder(template: Template, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "locked"
    script = textwrap.dedent("""
        import pathlib, sys, time
        from cubeyard.torch import _build
        with _build.locked(pathlib.Path(sys.argv[1])):
            print("locked", flush=True)
            time.sleep(float(sys.argv[2]))
    """)
    holder = template.start(tmp_path, script, str(folder), "600")
    wait_for("locked", holder.files[0])
    waiter = template.start(tmp_path, script, str(folder), "0")
    wait_for("waiting for another process", waiter.files[1])
    time.sleep(0.2)
    assert waiter.poll() is None, "the lock is held"
    holder.kill()
    holder.wait()
    waiter.communicate(timeout=60)
    assert waiter.returncode == 0


def wait_for(text: str, file: pathlib.Path) -> None:
    """Waits until a process has written a text."""
    ends = time.monotonic() + 60
    while text not in file.read_text():
        assert time.monotonic() < ends, file.read_text()
        time.sleep(0.01)


FIRST_USES = """
    import json, sys, torch
    name = sys.argv[1]
    uses = {
        "empty": lambda: torch.empty(2, device=name),
        "ones": lambda: torch.ones(2, device=name),
        "tensor": lambda: torch.tensor([1.0], device=name),
        "to": lambda: torch.ones(2).to(name),
        "method": lambda: getattr(torch.ones(2), name)(),
        "model": lambda: torch.nn.Linear(2, 2).to(name),
        "memory": lambda: getattr(torch, name).memory_allocated(),
        "stream": lambda: getattr(torch, name).Stream(),
        "synchronize": lambda: getattr(torch, name).synchronize(),
    }
    told = {}
    for use, act in uses.items():
        try:
            act()
        except Exception as error:
            told[use] = [type(error).__name__, str(error)]
    torch.manual_seed(1)
    assert (torch.ones(3) + 1).sum() == 6
    module = getattr(torch, name)
    assert not module.is_available() and module.device_count() == 0 and not module.is_initialized()
    assert not torch.accelerator.is_available()
    print(json.dumps([len(uses), told]))
"""


def first_uses(environment: Mapping[str, str], name: str = "ahbm", before: str = "") -> str:
    """The text of the error of all first uses, after an `import torch` that succeeded."""
    done = python(textwrap.dedent(before) + textwrap.dedent(FIRST_USES), environment, name)
    assert done.returncode == 0, done.stderr
    count, told = json.loads(done.stdout)
    assert len(told) == count
    assert {kind for kind, _ in told.values()} == {"TorchDeviceError"}, told
    (text,) = {text for _, text in told.values()}
    return str(text)


def test_without_a_compiler_the_first_use_says_what_to_install(tmp_path: pathlib.Path) -> None:
    environment = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "CXX": ""}
    text = first_uses(environment)
    assert "there is no C++ compiler" in text and "Install g++" in text
    text = first_uses({**environment, "CXX": "no-such-compiler -O3"})
    assert "CXX is 'no-such-compiler -O3': the program does not exist" in text


def test_a_compiler_that_fails_is_quoted(tmp_path: pathlib.Path) -> None:
    wrapper = tmp_path / "broken"
    wrapper.write_text("#!/bin/sh\necho 'fatal error: it is Monday' >&2\nexit 1\n")
    wrapper.chmod(0o755)
    text = first_uses({"CXX": str(wrapper), "XDG_CACHE_HOME": str(tmp_path)})
    assert "fatal error: it is Monday" in text and "build.log" in text


def test_a_cache_that_cannot_be_written_is_told(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    text = first_uses({"XDG_CACHE_HOME": str(tmp_path / "file")})
    assert "Set XDG_CACHE_HOME to a writable folder" in text and "Not a directory" in text


@pytest.mark.parametrize("version", ["2.10.1", "2.16.0a0+git1234", "3.0.0"])
def test_an_untested_version_is_told_with_the_tested_ones(version: str) -> None:
    # The version is changed within `import torch`, as late as the entry points are read.
    before = f"""
        import importlib.metadata, sys
        original = importlib.metadata.entry_points
        def entry_points(**given):
            if "torch" in sys.modules:
                sys.modules["torch"].__version__ = {version!r}
            return original(**given)
        importlib.metadata.entry_points = entry_points
    """
    text = first_uses({}, before=before)
    assert f"torch is version {version}: expected 2.11 to 2.15" in text and "pip install" in text


def test_versions_from_the_oldest_to_the_newest_are_accepted() -> None:
    for version in ("2.11.0", "2.11.0+cu130", "2.13.1", "2.15.0", "2.15.1+cpu"):
        _loader._check_version(version)


def test_a_native_module_that_is_missing_is_told(tmp_path: pathlib.Path) -> None:
    text = first_uses({}, before='import sys; sys.modules["cubeyard._native"] = None\n')
    assert "the native module of cubeyard cannot be loaded" in text


@pytest.mark.parametrize("name", ["my device", "Spyre", "1st", "nn", "cuda"])
def test_a_name_that_cannot_be_is_told(name: str) -> None:
    text = first_uses({"CUBEYARD_TORCH_DEVICE": name})
    assert f"CUBEYARD_TORCH_DEVICE is {name!r}" in text and "'spyre'" in text


def test_the_variable_renames_the_device() -> None:
    script = """
        import torch
        x = torch.ones(3, device="spyre:0")
        assert x.is_spyre and torch.spyre.is_available() and str(x.device) == "spyre:0" and not hasattr(torch, "ahbm")
        assert x.cpu().spyre().sum().item() == 3 and torch.accelerator.current_accelerator().type == "spyre"
        import torch.spyre.memory
        assert torch.spyre.memory.memory_allocated is torch.spyre.memory_allocated
    """
    done = python(script, {"CUBEYARD_TORCH_DEVICE": "spyre"})
    assert done.returncode == 0, done.stderr


def test_import_torch_loads_the_device_and_no_more_than_it_needs() -> None:
    script = """
        import sys, torch
        assert torch.ahbm.is_available()
        print([name for name in sys.modules if name.startswith("cubeyard.")])
        print([name for name in ("torch._dynamo", "torch._inductor.codegen", "pandas") if name in sys.modules])
    """
    done = python(script)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    modules, heavy = map(eval, done.stdout.splitlines())
    assert "cubeyard.torch" in modules and not {"cubeyard.kernels", "cubeyard.memory", "cubeyard.tensors"} & set(modules)
    assert heavy == []


def test_without_autoload_only_the_explicit_import_loads_the_device() -> None:
    script = """
        import torch
        assert not hasattr(torch, "ahbm")
        import cubeyard.torch
        assert torch.ahbm is cubeyard.torch and torch.ones(2, device="ahbm").sum().item() == 2
    """
    done = python(script, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.returncode == 0, done.stderr
    done = python("import cubeyard.torch, torch; assert torch.ahbm is cubeyard.torch; torch.ones(1, device='ahbm')")
    assert done.returncode == 0, done.stderr


def test_an_explicit_import_raises_what_goes_wrong(tmp_path: pathlib.Path) -> None:
    environment = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "CXX": ""}
    for script in ("import cubeyard.torch", "import torch; import cubeyard.torch"):
        done = python(script, {**environment, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
        assert done.returncode == 1 and "TorchDeviceError: there is no C++ compiler" in done.stderr


def test_the_place_of_another_package_is_not_taken() -> None:
    script = """
        import torch
        torch.utils.rename_privateuse1_backend("other")
        try:
            import cubeyard.torch
        except Exception as error:
            print(type(error).__name__, error)
    """
    done = python(script, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.stdout.startswith("TorchDeviceError the device 'other' of another package"), done.stderr


def test_another_accelerator_keeps_its_place_where_the_device_cannot_be_loaded(tmp_path: pathlib.Path) -> None:
    script = """
        import importlib.metadata
        original = importlib.metadata.entry_points
        def entry_points(**given):
            if given.get("group") == "torch.backends":
                import torch
                torch.accelerator.current_accelerator = lambda check_available=False: torch.device("cuda")
            return original(**given)
        importlib.metadata.entry_points = entry_points
        import torch
        assert not hasattr(torch, "ahbm") and torch._C._get_privateuse1_backend_name() == "privateuseone"
    """
    done = python(script, {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "CXX": ""})
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("cubeyard: the device 'ahbm' cannot be used: there is no C++ compiler")


def test_the_command_compiles_and_copies_under_the_name_of_a_shipped_shim(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "cubeyard.torch", "build"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and pathlib.Path(done.stdout.strip()) == pathlib.Path(str(_loader.shim)), done.stderr
    done = subprocess.run([*command, "--into", str(tmp_path / "new")], capture_output=True, text=True, timeout=300)
    copied = pathlib.Path(done.stdout.strip())
    assert copied == tmp_path / "new" / _loader.target().label().name
    assert copied.read_bytes() == pathlib.Path(str(_loader.shim)).read_bytes()


def test_the_doctor_names_the_compiler_and_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    compiler, shim, used = doctor._torch(compile=False)
    assert compiler.state == "fails" and "CXX is 'no-such-compiler'" in compiler.detail
    assert shim.state == "works" and str(_loader.shim.parent) in shim.detail
    assert used.state == "works" and f"torch {torch.__version__}" in used.detail
