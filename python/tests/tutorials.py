"""Runs the scripts of Triton's tutorials on the device `ahbm`: their checks, their tests and their benchmarks.

    git clone --depth 1 https://github.com/triton-lang/triton
    python python/tests/tutorials.py triton/python/tutorials            all of them
    python python/tests/tutorials.py triton/python/tutorials 01 02      some of them
    python python/tests/tutorials.py triton/python/tutorials 06 --tests  the tests of one, with pytest

The scripts are changed in three ways: by the device's name where they say `cuda`, by the sizes below, where a benchmark
would take hours, and by the lines of a profiler that knows other devices alone. A line that is not found is an error. The
exit code is 1 if a script fails.
"""

import os
import sys
import time
import traceback
from pathlib import Path

os.environ["TRITON_DEFAULT_BACKEND"] = "ahbm"
os.environ.setdefault("MPLBACKEND", "Agg")

NAMES = (('device="cuda"', 'device="ahbm"'), ('get_device_properties("cuda")', 'get_device_properties("ahbm")'), ("torch.cuda.", "torch.ahbm."))

# Triton's profiler, Proton, knows CUDA and HIP alone. Its lines in tutorial 09: the benchmark prints simulated times instead.
PROFILER = [
    ("    with proton_context():\n        for _ in range(reps):\n            fn(*args)\n", "    ms = triton.testing.do_bench(lambda: fn(*args))\n"),
    ('{label}: done")', '{label}: {ms * 1e6:,.0f} ns")'),
    ('        proton.start("matmul", hook="triton")\n        proton.deactivate()\n', ""),
    ('        proton.finalize()\n        show_profile(args.prec, "matmul")\n', ""),
]  # fmt: skip

# Lines of sizes: the script's own, and ours.
SIZES = {
    "01": [("range(12, 28, 1)", "range(12, 25, 1)")],
    "02": [("[128 * i for i in range(2, 100)]", "[256, 512, 1024, 2048, 4096, 8192, 12672]")],
    "03": [("[128 * i for i in range(2, 33)]", "[256, 384, 512]")],
    "05": [("test_layer_norm(1151,", "test_layer_norm(64,"), ("[512 * i for i in range(2, 32)]", "[1024, 4096]"), ("{'M': 4096,", "{'M': 512,")],
    "06": [("BATCH, N_HEADS = 4, 32", "BATCH, N_HEADS = 1, 8"), ("[2**i for i in range(10, 15)]", "[256, 512]")],
    "08": [("    N = 8192\n    K = 8192\n", "    N = 1024\n    K = 1024\n")],
    "09": [("validate(8192, 8192,", "validate(512, 512,"), ("    M = 8192\n    N = 8192\n", "    M = 512\n    N = 512\n"),
           ("reps=10000, warmup_reps=10000", "reps=1, warmup_reps=1"), *PROFILER],
}  # fmt: skip

# Parameters of the tests of tutorial 06, which has 144 of them.
TESTS = {"06": [('"Z", [1, 4]', '"Z", [1]'), ('"H", [2, 48]', '"H", [2]'), ("[128, 1024, (2 if is_hip() else 4) * 1024]", "[128, 256]")]}


def changed(script, sizes):
    """The text of a script, for the device and with the sizes."""
    text = script.read_text()
    for old, new in NAMES:
        text = text.replace(old, new)
    for old, new in sizes:
        if old not in text:
            raise SystemExit(f"{script}: expected a line with {old!r}")
        text = text.replace(old, new)
    return text


def run(script, sizes, folder):
    """Runs a script as the main one. Returns whether it ended well."""
    copy = folder / script.name
    copy.write_text(changed(script, sizes))
    sys.argv = [str(copy)]
    start = time.perf_counter()
    try:
        exec(compile(copy.read_text(), str(copy), "exec"), {"__name__": "__main__", "__file__": str(copy)})  # noqa: S102
    except Exception:
        traceback.print_exc()
        return False
    finally:
        print(f"{script.name}: {time.perf_counter() - start:.0f} s", flush=True)
    return True


def tested(script, sizes, folder):
    """Runs the tests that a script has."""
    import pytest

    copy = folder / f"test_{script.name.replace('-', '_')}"
    copy.write_text(changed(script, sizes))
    return pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(copy)]) == 0


def main(arguments):
    tests = "--tests" in arguments
    given = [one for one in arguments if one != "--tests"]
    if not given:
        raise SystemExit(__doc__)
    folder = Path(os.environ.get("TUTORIALS_OUT", "target/tutorials")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    scripts = sorted(Path(given[0]).resolve().glob("0*.py"))
    os.chdir(folder)
    outcomes = []
    for script in scripts:
        number = script.name[:2]
        if number not in (given[1:] or ("01", "02", "03", "04", "05", "06", "08", "09")):
            continue
        act = tested if tests else run
        outcomes.append(act(script, SIZES.get(number, []) + (TESTS.get(number, []) if tests else []), folder))
    return int(not outcomes or not all(outcomes))


if __name__ == "__main__":
    import cubeyard.torch  # noqa: F401

    sys.exit(main(sys.argv[1:]))
