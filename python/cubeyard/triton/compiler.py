"""Backend `ahbm` of Triton's compiler: compiles kernels to Triton's IR (TTIR), which `cubeyard.triton` runs."""

from __future__ import annotations

import hashlib
import math
import os
import pickle
from dataclasses import dataclass, fields
from typing import Any

import triton
from triton._C.libtriton import ir, passes
from triton.backends.compiler import BaseBackend

from cubeyard.errors import CubeyardError
from cubeyard.triton._ir import FORMAT, SIZES, Kernel
from cubeyard.triton._parse import parse

__all__ = ["TESTED", "AhbmBackend", "AhbmOptions", "check_version"]

TESTED = ("3.6", "3.7", "3.8", "3.9")
"""Minor versions of Triton tested with the backend. PyTorch 2.11 includes the first, PyTorch 2.15 the last."""


def check_version() -> None:
    """Raises unless this version of Triton was tested with the backend."""
    version = str(triton.__version__)
    if ".".join(version.split("+")[0].split(".")[:2]) not in TESTED:
        wanted = f"one of {', '.join(TESTED)}"
        raise CubeyardError(f"triton {version}: expected {wanted}; pip install 'triton=={TESTED[-1]}.*'")


@dataclass(frozen=True)
class AhbmOptions:
    """Options of a kernel, with Triton's names.

    Options that describe a GPU are accepted without effect. `cubeyard.triton` reports them.
    """

    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    warp_size: int = 1
    shared: int = 0
    enable_fp_fusion: bool = True
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    maxnreg: int | None = None
    cluster_dims: tuple[int, ...] = (1, 1, 1)
    supported_fp8_dtypes: tuple[str, ...] = ("fp8e4nv", "fp8e5")
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    default_dot_input_precision: str = "ieee"
    allowed_dot_input_precisions: tuple[str, ...] = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: int = 0
    allow_fp8e4nv: bool = True
    extern_libs: Any = None
    debug: bool = False
    sanitize_overflow: bool = False
    backend_name: str = "ahbm"
    arch: str = "v1"
    ir_override: str | None = None
    instrumentation_mode: str = ""
    fpsan_homomorphic_casts: bool = False
    instruction_sched_variant: str = "none"
    waves_per_eu: int = 0
    matrix_instr_nonkdim: int = 0
    kpack: int = 1
    schedule_hint: str = "none"
    allow_flush_denorm: bool = False
    early_ttgir_verifier: bool = False

    def hash(self) -> str:
        """Returns a key of the options for Triton's cache."""
        named = [(field.name, getattr(self, field.name)) for field in fields(self)]
        return hashlib.sha256(repr(named).encode()).hexdigest()


class AhbmBackend(BaseBackend):
    """Compiler backend that produces TTIR, then the bytes that the launcher reads."""

    # Arguments are NumPy arrays and tensors of this package, which Triton does not know.
    supports_native_tensor_specialization = False
    binary_ext = "ahbm"

    @staticmethod
    def supports_target(target: Any) -> bool:
        """Returns whether a target belongs to this package. Inductor's target has the name of PyTorch's device."""
        return target.backend in ("ahbm", os.environ.get("CUBEYARD_TORCH_DEVICE") or "ahbm")

    def __init__(self, target: Any) -> None:
        """Makes the backend. Raises if this version of Triton was not tested."""
        check_version()
        super().__init__(target)
        _name_files()

    def hash(self) -> str:
        """Returns a key of the backend for Triton's cache."""
        return f"ahbm-{FORMAT}-{triton.__version__}"

    def parse_options(self, options: dict[str, Any]) -> AhbmOptions:
        """Converts Triton's options. Unknown options are ignored."""
        known = {field.name for field in fields(AhbmOptions)}
        return AhbmOptions(**{name: value for name, value in options.items() if name in known and value is not None})

    def pack_metadata(self, metadata: Any) -> Any:
        """Returns the metadata for the launcher."""
        return metadata

    def get_codegen_implementation(self, options: Any) -> dict[str, Any]:
        """Returns the functions that Triton's front end requires from a backend."""
        return {"min_dot_size": lambda left, right: (1, 1, 1), "convert_custom_types": None}

    def get_module_map(self) -> dict[str, Any]:
        """Returns replacement modules for Triton: libdevice, whose functions the parser knows by symbol."""
        from triton.language.extra.cuda import libdevice

        return {"triton.language.extra.libdevice": libdevice}

    def load_dialects(self, context: Any) -> None:
        """Does nothing, because the backend has no dialects."""

    def add_stages(self, stages: dict[str, Any], options: Any, language: Any = None) -> None:
        """Adds the compilation stages: simplified TTIR, and its decoded form."""
        stages["ttir"] = _simplified
        stages["ahbm"] = _decoded


def _name_files() -> None:
    """Adds the file name of a function to its key in Triton's cache, because reports name the file."""
    from triton.runtime.jit import JITCallable

    plain = JITCallable.cache_key
    if not hasattr(plain.fget, "__cubeyard__"):

        def named(function: Any) -> str:
            text = f"{plain.__get__(function)} {function.fn.__code__.co_filename}"
            return hashlib.sha256(text.encode()).hexdigest()

        named.__cubeyard__ = True  # type: ignore[attr-defined]
        JITCallable.cache_key = property(named)


def _simplified(module: Any, metadata: dict[str, Any]) -> Any:
    """Runs Triton's machine-independent passes."""
    manager = ir.pass_manager(module.context)
    passes.common.add_inliner(manager)
    passes.common.add_canonicalizer(manager)
    passes.ttir.add_combine(manager)
    passes.common.add_cse(manager)
    passes.common.add_licm(manager)
    passes.common.add_symbol_dce(manager)
    _run(manager, module)
    return module


def _run(manager: Any, module: Any) -> None:
    try:
        manager.run(module, "ahbm")
    except TypeError:
        manager.run(module)


def _decoded(module: Any, metadata: dict[str, Any]) -> bytes:
    """Returns the decoded kernel as bytes, after the number of warps. Kernels that differ in options alone have equal bytes."""
    metadata["name"] = module.get_entry_func_name() if hasattr(module, "get_entry_func_name") else ""
    kernel = parse(str(module))
    metadata["shared"] = _largest(kernel)
    return pickle.dumps((metadata["num_warps"], pickle.dumps(kernel)))


_IN_TCM = ("tt.load", "tt.descriptor_load", "tt.dot")


def _largest(kernel: Kernel) -> int:
    """Returns the bytes of the largest tensor that a kernel loads or multiplies, at least 1. Its TCM must have room for it."""
    sizes = [1]
    blocks = [kernel.body]
    while blocks:
        for operation in blocks.pop().operations:
            blocks += operation.regions
            types = [kernel.types[one] for one in operation.results if operation.name in _IN_TCM]
            sizes += [math.prod(of.shape) * SIZES.get(of.element, 1) for of in types]
    return max(sizes)
