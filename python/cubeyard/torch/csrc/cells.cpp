// Fused cells of recurrent layers, which PyTorch asks of devices that it does not know and the CPU does not have.
// The operators of tensors ask for all headers otherwise.
#define AT_PER_OPERATOR_HEADERS
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/new_zeros.h>
#include <torch/library.h>

#include "shim.h"

namespace cubeyard {
namespace {

using at::Tensor;
using Bias = std::optional<Tensor>;

Tensor with_bias(const Tensor& gates, const Bias& bias) {
  return bias.has_value() && bias->defined() ? gates + *bias : gates;
}

Tensor bias_gradient(const Tensor& gradient, bool has_bias) {
  return has_bias ? gradient.sum(0) : Tensor();
}

// Derivatives, from the function's value.
Tensor through_sigmoid(const Tensor& gradient, const Tensor& value) {
  return gradient * value * (1 - value);
}

Tensor through_tanh(const Tensor& gradient, const Tensor& value) {
  return gradient * (1 - value * value);
}

// The workspace is what the backward pass needs: the input, forget, cell and output gates side by side.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& cx,
    const Bias& input_bias,
    const Bias& hidden_bias) {
  const auto gates = (with_bias(hidden_gates, hidden_bias) + with_bias(input_gates, input_bias)).chunk(4, 1);
  const Tensor in = gates[0].sigmoid();
  const Tensor forget = gates[1].sigmoid();
  const Tensor cell = gates[2].tanh();
  const Tensor out = gates[3].sigmoid();
  const Tensor cy = forget * cx + in * cell;
  return {out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(
    const std::optional<Tensor>& grad_hy,
    const std::optional<Tensor>& grad_cy,
    const Tensor& cx,
    const Tensor& cy,
    const Tensor& workspace,
    bool has_bias) {
  const bool has_hy = grad_hy.has_value() && grad_hy->defined();
  const bool has_cy = grad_cy.has_value() && grad_cy->defined();
  if (!has_hy && !has_cy) {
    return {};
  }
  const auto gates = workspace.chunk(4, 1);
  const Tensor &in = gates[0], &forget = gates[1], &cell = gates[2], &out = gates[3];
  const Tensor tanh_cy = cy.tanh();
  const Tensor hy = has_hy ? *grad_hy : cy.new_zeros(cy.sizes());
  Tensor gradient = through_tanh(hy * out, tanh_cy);
  if (has_cy) {
    gradient = gradient + *grad_cy;
  }
  const Tensor grad_gates = at::cat(
      {through_sigmoid(gradient * cell, in),
       through_sigmoid(gradient * cx, forget),
       through_tanh(gradient * in, cell),
       through_sigmoid(hy * tanh_cy, out)},
      1);
  return {grad_gates, gradient * forget, bias_gradient(grad_gates, has_bias)};
}

// The workspace holds the reset, update and new gates, the hidden state, and the hidden part of the new gate.
std::tuple<Tensor, Tensor> gru_cell(
    const Tensor& input_gates,
    const Tensor& hidden_gates,
    const Tensor& hx,
    const Bias& input_bias,
    const Bias& hidden_bias) {
  const auto input = with_bias(input_gates, input_bias).chunk(3, 1);
  const auto hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor reset = (hidden[0] + input[0]).sigmoid();
  const Tensor update = (hidden[1] + input[1]).sigmoid();
  const Tensor fresh = (input[2] + hidden[2] * reset).tanh();
  return {(hx - fresh) * update + fresh, at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(
    const Tensor& grad_hy,
    const Tensor& workspace,
    bool has_bias) {
  const auto parts = workspace.chunk(5, 1);
  const Tensor &reset = parts[0], &update = parts[1], &fresh = parts[2], &hx = parts[3], &hidden = parts[4];
  const Tensor grad_fresh = through_tanh(grad_hy * (1 - update), fresh);
  const Tensor grad_update = through_sigmoid(grad_hy * (hx - fresh), update);
  const Tensor grad_reset = through_sigmoid(grad_fresh * hidden, reset);
  const Tensor grad_input = at::cat({grad_reset, grad_update, grad_fresh}, 1);
  const Tensor grad_hidden = at::cat({grad_reset, grad_update, grad_fresh * reset}, 1);
  return {
      grad_input,
      grad_hidden,
      grad_hy * update,
      bias_gradient(grad_input, has_bias),
      bias_gradient(grad_hidden, has_bias)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

} // namespace
} // namespace cubeyard
