"""Table of operators: from a name to the rule that describes its calls."""

from __future__ import annotations

import functools

from cubeyard.torch.operators import (
    attention,
    convolutions,
    copies,
    elements,
    indexing,
    lists,
    norms,
    products,
    recurrent,
    reductions,
    windows,
)
from cubeyard.torch.operators.call import signature
from cubeyard.torch.operators.description import Rule

__all__ = ["TABLE", "rule", "takes_no_time"]

_MODULES = (attention, convolutions, copies, elements, indexing, lists, norms, products, recurrent, reductions, windows)

FREE = frozenset(
    """
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided set_ resize_ resize_as_ _resize_output_ detach_
    t_ transpose_ squeeze_ unsqueeze_ as_strided_ swapdims_ swapaxes_ rename_ requires_grad_ retain_grad _backward set_data
    size stride numel sym_size sym_stride sym_numel sym_storage_offset storage_offset dim is_contiguous is_floating_point is_complex
    is_nonzero is_same_size is_pinned is_set_to is_conj is_neg is_inference is_leaf is_signed is_coalesced _is_zerotensor get_device
    result_type can_cast promote_types output_nr _version version item _local_scalar_dense _fused_sdp_choice _has_compatible_shallow_copy_type
    _assert_async _assert_scalar _assert_tensor_metadata _functional_assert_async sym_constrain_range sym_constrain_range_for_size
    _nested_tensor_size reshape flatten unflatten contiguous.view _unsafe_view _reshape_alias lift record_stream
    resize _debug_has_internal_overlap _cudnn_init_dropout_state _use_cudnn_ctc_loss _to_cpu _print
    """.split()
)
"""Operators on metadata, and those that only reserve memory. Views are known by their schema."""


def _merged() -> dict[str, Rule]:
    table: dict[str, Rule] = {}
    for module in _MODULES:
        twice = sorted(table.keys() & module.RULES.keys())
        if twice:
            raise AssertionError(f"two rules for {', '.join(twice)}")
        table.update(module.RULES)
    return table


TABLE: dict[str, Rule] = _merged()
"""Rule of each operator, by its name without namespace. A name with an overload goes before the name alone."""


@functools.cache
def rule(op: str) -> Rule | None:
    """Returns the rule of an operator with namespace and overload; None if the table has none.

    An in-place operator has the rule of its out-of-place form; `_foreach_add` has the rule of `add` for each tensor.
    """
    namespace, _, full = op.partition("::")
    if namespace != "aten":
        return None
    name, _, overload = full.partition(".")
    base = name.removesuffix("_")
    for key in (f"{name}.{overload}", name, f"{base}.{overload}", base):
        if key in TABLE:
            return TABLE[key]
    simple = elements.RULES.get(base.removeprefix("_foreach_")) if base.startswith("_foreach_") else None
    return None if simple is None else lists.each(simple.counts)


@functools.cache
def takes_no_time(op: str) -> bool:
    """Returns True if an operator only makes a view, reads metadata or reserves memory."""
    namespace, _, full = op.partition("::")
    name = full.partition(".")[0]
    if namespace == "prim" or (namespace == "aten" and name in FREE):
        return True
    schema = signature(op)
    return schema is not None and schema.returns_views and name not in TABLE
