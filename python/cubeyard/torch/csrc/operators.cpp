// Operators with kernels of their own: those that make tensors and views, copies, and those that the CPU lacks.
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_native.h>
#include <ATen/ops/_local_scalar_dense_ops.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/bernoulli_ops.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/resize_ops.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "fallback.h"
#include "shim.h"
#include "timing.h"

namespace cubeyard {
namespace {

using at::Tensor;
using std::optional;

// ---- Making tensors -----------------------------------------------------------------------------

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

// The device of a new tensor, and what cannot be.
c10::Device device_for(optional<c10::Layout> layout, optional<c10::Device> device, optional<bool> pinned) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      layout.value_or(c10::kStrided) == c10::kStrided,
      "Device ", c10::DeviceTypeName(kDevice, true), " has dense tensors only, and layout ", *layout, " was asked for");
  TORCH_CHECK(!pinned.value_or(false), "Only dense CPU tensors can be pinned");
  return device.value_or(c10::Device(kDevice, current_device()));
}

Tensor empty(
    at::IntArrayRef size,
    optional<c10::ScalarType> dtype,
    optional<c10::Layout> layout,
    optional<c10::Device> device,
    optional<bool> pinned,
    optional<c10::MemoryFormat> format) {
  const c10::DeviceGuard guard(device_for(layout, device, pinned));
  return at::detail::empty_generic(
      size, &SpyreAllocator::instance(), kKeys, c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(
    at::IntArrayRef size,
    at::IntArrayRef stride,
    optional<c10::ScalarType> dtype,
    optional<c10::Layout> layout,
    optional<c10::Device> device,
    optional<bool> pinned) {
  const c10::DeviceGuard guard(device_for(layout, device, pinned));
  return at::detail::empty_strided_generic(
      size, stride, &SpyreAllocator::instance(), kKeys, c10::dtype_or_default(dtype));
}

// A tensor that is known to be zero, and has no memory.
Tensor efficient_zero_tensor(
    at::IntArrayRef size,
    optional<c10::ScalarType> dtype,
    optional<c10::Layout> layout,
    optional<c10::Device> device,
    optional<bool> pinned) {
  const c10::Device asked = device_for(layout, device, pinned);
  at::native::ZeroTensorAllocator allocator(c10::Device(kDevice, index_of(asked)));
  const auto keys = kKeys | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor);
  return at::detail::empty_generic(size, &allocator, keys, c10::dtype_or_default(dtype), std::nullopt);
}

// ---- Copies -------------------------------------------------------------------------------------

// Keeps page-locked memory until the stream has passed the copy.
void keep_until_copied(const Tensor& host, c10::DeviceIndex device) {
  const auto& memory = host.storage().data_ptr();
  if (is_host_memory(memory.get())) {
    const c10::Stream stream(c10::Stream::UNSAFE, c10::Device(kDevice, device), current_stream(device));
    host_allocator().record_event(memory.get(), memory.get_context(), stream);
  }
}

// The data is moved at once. What remains is the order of the streams: a copy that blocks makes the host wait for
// the stream, and the streams of two devices wait for each other.
void order_streams(const Tensor& from, const Tensor& to, bool non_blocking) {
  const bool from_device = from.device().type() == kDevice;
  const bool to_device = to.device().type() == kDevice;
  if (from_device && to_device) {
    const auto source = from.device().index();
    const auto target = to.device().index();
    if (source != target) {
      const auto time = std::max(
          cubeyard_torch_record(source, current_stream(source)), cubeyard_torch_record(target, current_stream(target)));
      cubeyard_torch_stream_wait(source, current_stream(source), time);
      cubeyard_torch_stream_wait(target, current_stream(target), time);
    }
    return;
  }
  const auto device = (from_device ? from : to).device().index();
  if (non_blocking) {
    keep_until_copied(from_device ? to : from, device);
  } else {
    wait_for_current_stream(device);
  }
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool non_blocking) {
  for (const Tensor* tensor : {&from, &to}) {
    TORCH_CHECK(
        tensor->device().type() == kDevice || tensor->device().type() == c10::DeviceType::CPU,
        "Cannot copy from ", from.device(), " to ", to.device(), ": copy by way of the CPU");
  }
  check_not_forked();
  Aliases aliases;
  const auto on_host = [&](const Tensor& tensor, bool written) {
    return tensor.device().type() == kDevice ? aliases.of(tensor, written) : tensor;
  };
  Tensor target = on_host(to, true);
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    at::_ops::copy_::call(target, on_host(from, false), false);
  }
  take_time_of_copy(from, to);
  order_streams(from, to, non_blocking);
  return to;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  at::_ops::resize_::call(to, c10::fromIntArrayRefSlow(from.sizes()), std::nullopt);
  return copy_from(from, to, false);
}

at::Scalar local_scalar_dense(const Tensor& self) {
  check_not_forked();
  take_time_of_item(self);
  wait_for_current_stream(self.device().index());
  return at::_ops::_local_scalar_dense::call(Aliases().of(self, false));
}

void record_stream(Tensor& self, c10::Stream stream) {
  SpyreAllocator::instance().recordStream(self.storage().data_ptr(), stream);
}

// ---- Operators that the CPU lacks ---------------------------------------------------------------

// A convolution of an unknown device is left to the device: here to the CPU's choice for such arguments.
void convolution(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution", "");
  call_cpu_kernel(op, stack);
}

void convolution_backward(const c10::OperatorHandle& called, torch::jit::Stack* stack) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution_backward", "");
  // Its fourth argument is the shape of the bias, which is the weight's number of outputs.
  const size_t first = stack->size() - called.schema().arguments().size();
  const Tensor weight = (*stack)[first + 2].toTensor();
  const bool transposed = (*stack)[first + 6].toBool();
  const int64_t groups = (*stack)[first + 8].toInt();
  const int64_t outputs = transposed ? weight.size(1) * groups : weight.size(0);
  stack->insert(stack->begin() + static_cast<ptrdiff_t>(first) + 3, c10::IValue(std::vector<int64_t>{outputs}));
  call_cpu_kernel(op, stack);
}

// The CPU's kernel draws from the CPU's default generator, not from the device's.
std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, optional<bool> train) {
  if (!train.value_or(true) || input.numel() == 0) {
    return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  }
  Tensor mask = at::empty_like(input, input.options().dtype(at::kBool));
  at::_ops::bernoulli__float::call(mask, 1 - p, std::nullopt);
  return {at::mul(input, mask).mul_(p == 1 ? 0 : 1 / (1 - p)), mask};
}

// An own kernel as an operator that takes time.
template <auto* kernel>
struct Timed;

template <class Result, class... Arguments, Result (*kernel)(Arguments...)>
struct Timed<kernel> {
  static void call(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    TimedCall timed(op, *stack);
    call_unboxed(stack, std::index_sequence_for<Arguments...>());
    timed.end(*stack);
  }

 private:
  template <size_t... places>
  static void call_unboxed(torch::jit::Stack* stack, std::index_sequence<places...> /*all*/) {
    constexpr size_t kCount = sizeof...(places);
    Result result = kernel(torch::jit::peek(*stack, places, kCount).template to<std::decay_t<Arguments>>()...);
    torch::jit::drop(*stack, kCount);
    push(*stack, std::move(result));
  }

  static void push(torch::jit::Stack& stack, Tensor result) {
    stack.emplace_back(std::move(result));
  }

  template <class... Parts>
  static void push(torch::jit::Stack& stack, std::tuple<Parts...> results) {
    std::apply([&](auto&... parts) { (stack.emplace_back(std::move(parts)), ...); }, results);
  }
};

template <auto* kernel>
torch::CppFunction timed() {
  return torch::CppFunction::makeFromBoxedFunction<&Timed<kernel>::call>();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("_efficientzerotensor", TORCH_FN(efficient_zero_tensor));

  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));

  m.impl("_copy_from", timed<&copy_from>());
  m.impl("_copy_from_and_resize", timed<&copy_from_and_resize>());
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  m.impl("record_stream", TORCH_FN(record_stream));

  m.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution>());
  m.impl("convolution_backward_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
  m.impl("native_dropout", timed<&native_dropout>());
}

// Aliases carry the bits, so that the CPU's copy resolves them.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

} // namespace
} // namespace cubeyard

// Attention takes the way that it takes on the CPU.
namespace at::native {
namespace {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &_fused_sdp_choice_cpp)
} // namespace
} // namespace at::native
