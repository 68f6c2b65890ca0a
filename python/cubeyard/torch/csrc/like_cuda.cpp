// What programs take for granted on every device but the CPU, because CUDA has it: parameters that stay themselves
// when their module moves, and element types that the CPU's kernels lack.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "fallback.h"
#include "shim.h"
#include "timing.h"

namespace cubeyard {
namespace {

using at::Tensor;

// ---- Data of tensors ----------------------------------------------------------------------------

bool is_dense_here(const Tensor& tensor) {
  constexpr c10::DispatchKeySet kBackends({c10::BackendComponent::CPUBit, c10::BackendComponent::PrivateUse1Bit});
  const c10::DispatchKeySet keys = tensor.key_set();
  return keys.has_any(c10::DispatchKeySet(c10::DispatchKey::Dense)) && keys.has_any(kBackends);
}

// Whether `self.data = from` works. PyTorch's own answer knows the devices by name, so that `Module.to` would make
// new parameters for this one: tied ones would part, and an optimizer that was made before would keep the old ones.
// The dispatcher asks this one only where one of both is a tensor of the device.
bool can_take_data(const Tensor& self, const Tensor& from) {
  return (is_dense_here(self) && is_dense_here(from)) ||
      self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

// ---- Histograms of whole numbers ----------------------------------------------------------------

std::vector<int64_t> elements_of(const Tensor& self) {
  const Tensor whole = self.to(c10::Device(c10::DeviceType::CPU), at::kLong).contiguous();
  const auto* data = whole.const_data_ptr<int64_t>();
  return {data, data + whole.numel()};
}

// Number of elements in each of `bins` intervals of equal length, exactly. The last has its upper end, too. Equal
// limits stand for the least and the greatest element.
std::vector<int64_t> count(const std::vector<int64_t>& elements, int64_t bins, __int128 low, __int128 high) {
  if (low == high && !elements.empty()) {
    const auto [least, greatest] = std::minmax_element(elements.begin(), elements.end());
    low = *least;
    high = *greatest;
  }
  if (low == high) {
    low--;
    high++;
  }
  std::vector<int64_t> counts(bins);
  for (const int64_t element : elements) {
    if (low <= element && element <= high) {
      const auto place = static_cast<int64_t>((element - low) * bins / (high - low));
      counts[std::min(place, bins - 1)]++;
    }
  }
  return counts;
}

// The CPU has histograms of floating-point numbers only, CUDA those of whole numbers, too.
void histc(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const size_t arguments = op.schema().arguments().size();
  const auto argument = [&](size_t place) -> c10::IValue& { return (*stack)[stack->size() - arguments + place]; };
  const Tensor self = argument(0).toTensor();
  if (!c10::isIntegralType(self.scalar_type(), false)) {
    return call_cpu_kernel(op, stack);
  }
  TimedCall timed(op, *stack);
  const int64_t bins = argument(1).toInt();
  const auto low = argument(2).toScalar().to<int64_t>(), high = argument(3).toScalar().to<int64_t>();
  TORCH_CHECK(bins > 0, "bins is ", bins, ": expected 1 or more");
  TORCH_CHECK(low <= high, "max is ", high, ": expected ", low, ", which is min, or more");
  std::vector<int64_t> counts = count(elements_of(self), bins, low, high);
  Tensor out = arguments > 4 ? argument(4).toTensor() : at::empty({0}, self.options());
  TORCH_CHECK(
      out.scalar_type() == self.scalar_type(), "out has the type ", out.scalar_type(), ": expected ", self.scalar_type());
  out.resize_({bins}).copy_(at::from_blob(counts.data(), {bins}, at::kLong));
  torch::jit::drop(*stack, arguments);
  stack->emplace_back(std::move(out));
  timed.end(*stack);
}

// ---- Short floating-point numbers ---------------------------------------------------------------

// Operators whose CPU kernels lack float16 and bfloat16.
constexpr std::array<std::string_view, 22> kWidened = {
    "aten::avg_pool3d", "aten::avg_pool3d.out", "aten::avg_pool3d_backward", "aten::avg_pool3d_backward.grad_input",
    "aten::_upsample_bilinear2d_aa", "aten::_upsample_bilinear2d_aa.out",
    "aten::_upsample_bilinear2d_aa_backward", "aten::_upsample_bilinear2d_aa_backward.grad_input",
    "aten::_upsample_bicubic2d_aa", "aten::_upsample_bicubic2d_aa.out",
    "aten::_upsample_bicubic2d_aa_backward", "aten::_upsample_bicubic2d_aa_backward.grad_input",
    "aten::multi_margin_loss", "aten::multi_margin_loss.out", "aten::multi_margin_loss_backward", "aten::multi_margin_loss_backward.grad_input",
    "aten::multilabel_margin_loss_forward", "aten::multilabel_margin_loss_forward.output",
    "aten::multilabel_margin_loss_backward", "aten::multilabel_margin_loss_backward.grad_input",
    "aten::trace", "aten::trace.out"}; // trace: in 2.11

bool is_short(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && c10::isReducedFloatingType(value.toTensor().scalar_type());
}

// Computes in float32 and rounds once, as CUDA's kernels do.
void widen(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  TimedCall timed(op, *stack);
  const auto& arguments = op.schema().arguments();
  const size_t first = stack->size() - arguments.size();
  std::optional<c10::ScalarType> type;
  std::vector<std::pair<Tensor, Tensor>> written; // the argument, and what is computed in its place
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (size_t place = 0; place < arguments.size(); place++) {
    c10::IValue& value = (*stack)[first + place];
    if (is_short(value)) {
      const Tensor original = value.toTensor(), wide = original.to(at::kFloat);
      type = original.scalar_type();
      if (arguments[place].alias_info() != nullptr) {
        written.emplace_back(original, wide);
      }
      value = wide;
    }
  }
  call_cpu_kernel(op, stack);
  for (size_t place = first; type && place < stack->size(); place++) {
    Tensor result = (*stack)[place].toTensor();
    const auto found = std::find_if(
        written.begin(), written.end(), [&](const auto& pair) { return pair.second.is_same(result); });
    if (found != written.end()) {
      found->first.resize_(result.sizes()).copy_(result);
      (*stack)[place] = found->first;
    } else if (result.scalar_type() == at::kFloat) {
      (*stack)[place] = result.to(*type);
    }
  }
  timed.end(*stack);
}

} // namespace

bool is_widened(std::string_view name) {
  return std::find(kWidened.begin(), kWidened.end(), name) != kWidened.end();
}

namespace {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(can_take_data));
  for (const char* name : {"histc", "histc.out"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&histc>());
  }
  for (const std::string_view name : kWidened) {
    m.impl(name.data(), torch::CppFunction::makeFromBoxedFunction<&widen>());
  }
}

// Subclasses of tensors would be asked otherwise, which do not know this operator.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(can_take_data));
}

} // namespace
} // namespace cubeyard
