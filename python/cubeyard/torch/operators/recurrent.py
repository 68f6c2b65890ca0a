"""Recurrent layers and cells that PyTorch runs as one operator."""

from __future__ import annotations

from cubeyard.torch.operators.call import Call, NotDescribed
from cubeyard.torch.operators.description import Counts, Description, Rule, pointwise, product, rows_of
from cubeyard.torch.operators.spec import TensorSpec, contiguous, transposed

GATES = {2: 4, 3: 3, 0: 1, 1: 1}
"""Gates of each mode of `mkldnn_rnn_layer`: 2 is LSTM, 3 is GRU, 0 and 1 are plain."""


def cell(call: Call, counts: Counts) -> list[Description]:
    """Describes the gates of one cell: operations on elements of the state, whose gates lie beside each other."""
    state = call.result
    gates = [spec for spec in call.reads if len(spec.shape) == 2 and spec.shape[0] == state.shape[0]]
    operands = [part for spec in gates for part in _parts(spec, state)]
    results = [part for spec in call.writes if spec.shape[:1] == state.shape[:1] for part in _parts(spec, state)]
    return [pointwise(operands, results, counts)]


def layer(call: Call, counts: Counts) -> list[Description]:
    """Describes a layer: one product for the inputs of all steps, then for each step a product and the gates."""
    given, weight, recurrent = call.tensor("input"), call.tensor("weight0"), call.tensor("weight1")
    gates = GATES.get(int(call.get("mode", 2)))
    if gates is None:
        raise NotDescribed(f"mode {call.get('mode')} of a recurrent layer")
    steps, batch, hidden = given.shape[0], given.shape[1], int(call.get("hidden_size"))
    return _layer(given, weight, recurrent, (steps, batch, hidden, gates), counts)


def layer_backward(call: Call, counts: Counts) -> list[Description]:
    """Describes the derivative of a layer: two products for each one of the layer, and the gates again."""
    given, weight, recurrent = call.tensor("input"), call.tensor("weight1"), call.tensor("weight2")
    gates = GATES.get(int(call.get("mode", 2)), 4)
    steps, batch, hidden = given.shape[0], given.shape[1], int(call.get("hidden_size"))
    parts = _layer(given, weight, recurrent, (steps, batch, hidden, gates), counts)
    return [part._replace(times=2 * part.times) if part.family == "product" else part for part in parts]


def _layer(
    given: TensorSpec, weight: TensorSpec, recurrent: TensorSpec, sizes: tuple[int, int, int, int], counts: Counts
) -> list[Description]:
    steps, batch, hidden, gates = sizes
    all_gates = contiguous(given, steps * batch, gates * hidden)
    state = contiguous(given, batch, hidden)
    step = contiguous(given, batch, gates * hidden)
    return [
        product(contiguous(given, steps * batch, given.shape[2]), transposed(weight), all_gates),
        product(state, transposed(recurrent), step, step, times=steps),
        pointwise([*_parts(step, state), state], [state, state], counts, times=steps),
    ]


def _parts(spec: TensorSpec, state: TensorSpec) -> list[TensorSpec]:
    """Returns a tensor of several gates as one tensor of the state's shape for each."""
    if len(spec.shape) != 2 or spec.shape[1] % state.shape[1]:
        return []
    return [spec._replace(shape=state.shape)] * (spec.shape[1] // state.shape[1])


RULES: dict[str, Rule] = {
    **rows_of(cell, {(14, 9): "_thnn_fused_lstm_cell", (12, 6): "_thnn_fused_gru_cell"}),
    **rows_of(
        cell,
        {(22, 2): "_thnn_fused_lstm_cell_backward_impl _thnn_fused_lstm_cell_backward", (18, 0): "_thnn_fused_gru_cell_backward"},
    ),
    **rows_of(layer, {(14, 9): "mkldnn_rnn_layer"}),
    **rows_of(layer_backward, {(22, 2): "mkldnn_rnn_layer_backward"}),
}
"""Rules of recurrent operators."""
