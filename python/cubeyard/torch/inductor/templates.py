"""Block sizes for Inductor's Triton templates: products, convolutions and flex attention under `max_autotune`.

Each choice is simulated once, and the clocks forget it. Few sizes are enough: blocks are multiples of the PE's matrix
unit, and all operands of a step must fit its memory for tiles.
"""

from __future__ import annotations

from typing import Any

from cubeyard.torch.inductor import versions

__all__ = ["BLOCKS", "register"]

BLOCKS = ((64, 64, 64), (32, 64, 128), (64, 64, 128), (128, 64, 64))
"""Rows, columns and depth of the blocks of a product."""


def fits(rows: int, columns: int, depth: int, element_bytes: int, tile_bytes: int) -> bool:
    """Returns whether two steps of a product and its sums fit a PE's memory for tiles.

    >>> fits(64, 64, 64, 4, 1 << 20), fits(512, 512, 128, 4, 1 << 20)
    (True, False)
    """
    return 2 * (rows + columns) * depth * element_bytes + rows * columns * 4 <= tile_bytes


def _tile_bytes() -> int:
    """Returns the size of a PE's memory for tiles, in bytes."""
    import triton

    return int(triton.runtime.driver.active.utils.get_device_properties(0)["max_shared_mem"])


def register(name: str) -> None:
    """Registers block sizes for the templates of products."""
    registry, triton = versions.heuristic_modules()
    from torch._inductor.kernel.bmm import bmm_template
    from torch._inductor.kernel.mm import mm_template
    from torch._inductor.kernel.mm_plus_mm import mm_plus_mm_template

    of = _classes(triton)
    for template, operator, chosen in (
        (mm_template, None, of["mm"]), (bmm_template, None, of["mm"]), (mm_template, "addmm", of["addmm"]),
        (bmm_template, "baddbmm", of["addmm"]), (mm_template, "int_mm", of["int_mm"]), (mm_plus_mm_template, None, of["mm_plus_mm"]),
    ):  # fmt: skip
        registry.register_template_heuristic(template.uid, name, op_name=operator)(chosen)
    _choose(name, of["other"])


def _choose(name: str, blocks: Any) -> None:
    """Makes Inductor take block sizes for convolutions and flex attention from a class."""
    from torch._inductor.choices import InductorChoices

    plain = InductorChoices.get_config_heuristics

    def get_config_heuristics(choices: Any, device_type: str | None = "cuda") -> Any:
        return blocks() if device_type == name else plain(choices, device_type)

    InductorChoices.get_config_heuristics = get_config_heuristics


def _classes(triton: Any) -> dict[str, Any]:
    """Returns the classes of heuristics by operator."""

    class Blocks(triton.BaseConfigHeuristic):
        """Blocks that fit the memory of a PE."""

        def __init__(self) -> None:
            super().__init__()
            sizes = [triton.GemmConfig(*block, 1, 4) for block in BLOCKS]
            self.mm_configs = self.exhaustive_configs = self.conv_configs = sizes
            self.int8_mm_configs = self.mm_plus_mm_configs = sizes
            # One size: each is a simulation, and a backward pass takes a long time.
            self.flex_attn_fwd_autotune_configs: list[Any] = [triton.FlexConfig(64, 64, 1, 4)]
            self.flex_attn_bwd_autotune_configs: list[Any] = []
            self.flex_decode_autotune_configs: list[Any] = []

        def preprocess_mm_configs(self, m: Any, n: Any, k: Any, configs: Any, *rest: Any, dtype_size: int = 0, **named: Any) -> Any:
            """Returns the blocks that fit."""
            room = _tile_bytes()
            kept = [one for one in configs if fits(one.block_m, one.block_n, one.block_k, dtype_size or 4, room)]
            return super().preprocess_mm_configs(m, n, k, kept, *rest, dtype_size=dtype_size, **named)

    class Product(triton.MMTemplateConfigMixin, Blocks):
        """Blocks of `mm` and `bmm`."""

    class SumAndProduct(triton.AddMMConfigMixin, Product):
        """Blocks of `addmm` and `baddbmm`."""

    class Integers(triton.INT8MMTemplateConfigMixin, Blocks):
        """Blocks of `_int_mm`."""

    class TwoProducts(triton.MMPlusMMTemplateConfigMixin, Blocks):
        """Blocks of a sum of two products."""

    return {"mm": Product, "addmm": SumAndProduct, "int_mm": Integers, "mm_plus_mm": TwoProducts, "other": Blocks}
