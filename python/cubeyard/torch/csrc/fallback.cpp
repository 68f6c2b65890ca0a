// Operators of the device that have no kernel of their own: the CPU's kernel runs on aliases of the arguments, and
// what it allocates is memory of the device. Nothing is copied.
#include "fallback.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "description.h"
#include "shim.h"
#include "timing.h"

namespace cubeyard {
namespace {

using c10::IValue;

// Arguments that may be CPU tensors beside tensors of a device, of operators that read them on the host anyway.
struct HostArgument {
  std::string_view op; // without overload
  std::string_view argument;
};

constexpr std::array kHostArguments = {
    HostArgument{"aten::index", "indices"},
    HostArgument{"aten::_unsafe_index", "indices"},
    HostArgument{"aten::_unsafe_masked_index", "indices"},
    HostArgument{"aten::_unsafe_masked_index_put_accumulate", "indices"},
    HostArgument{"aten::index_put", "indices"},
    HostArgument{"aten::index_put_", "indices"},
    HostArgument{"aten::_unsafe_index_put", "indices"},
    HostArgument{"aten::_index_put_impl_", "indices"},
    HostArgument{"aten::_pack_padded_sequence", "lengths"},
    HostArgument{"aten::_ctc_loss", "input_lengths"},
    HostArgument{"aten::_ctc_loss", "target_lengths"},
    HostArgument{"aten::_ctc_loss_backward", "input_lengths"},
    HostArgument{"aten::_ctc_loss_backward", "target_lengths"},
};

bool may_be_on_host(const c10::FunctionSchema& schema, const c10::Argument& argument) {
  for (const auto& entry : kHostArguments) {
    if (entry.op == schema.name() && entry.argument == argument.name()) {
      return true;
    }
  }
  return false;
}

bool is_generator(const c10::Argument& argument) {
  const auto* optional = argument.type()->castRaw<c10::OptionalType>();
  return optional != nullptr && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

// One call of a CPU kernel for a device.
class HostCall {
 public:
  explicit HostCall(const c10::FunctionSchema& schema) : schema_(schema) {}

  // Replaces the arguments at the end of the stack by those for the CPU.
  void take_arguments(torch::jit::Stack& stack) {
    const auto& arguments = schema_.arguments();
    const size_t first = stack.size() - arguments.size();
    for (size_t place = 0; place < arguments.size(); place++) {
      take(stack[first + place], arguments[place]);
    }
    if (generator_.has_value()) {
      const c10::Device wanted = device_ || asked_ ? device() : c10::Device(c10::DeviceType::CPU);
      TORCH_CHECK(
          generator_->type() == wanted.type(),
          "Expected a '", wanted.type(), "' device type for generator but found '", generator_->type(), "'");
    }
    if (offender_ != nullptr) {
      refuse_devices(device(), c10::DeviceType::CPU, *offender_);
    }
    for (const size_t place : generators_) {
      stack[first + place] = host_generator(default_generator(device().index()));
    }
  }

  // Where results go: the device that is asked for, else that of the tensors.
  c10::Device device() const {
    return asked_.value_or(device_.value_or(c10::Device(kDevice, current_device())));
  }

  // Replaces the results at the end of the stack by those of the device.
  void give_results(torch::jit::Stack& stack) {
    aliases_.follow();
    if (device().type() != kDevice) {
      return;
    }
    const size_t first = stack.size() - schema_.returns().size();
    // All tensors are taken out before the first is adopted, since that asks who else has its storage.
    c10::SmallVector<at::Tensor, 4> results;
    for_each_tensor(stack, first, [&](at::Tensor tensor) {
      results.push_back(std::move(tensor));
      return at::Tensor();
    });
    size_t place = 0;
    for_each_tensor(stack, first, [&](const at::Tensor&) {
      const size_t holders = holders_of(results[place], results);
      return adopt(std::exchange(results[place++], {}), holders);
    });
  }

 private:
  void take(IValue& value, const c10::Argument& argument) {
    if (value.isTensor()) {
      value = alias(value.toTensor(), argument);
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> aliases;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        aliases.push_back(alias(tensor, argument));
      }
      value = std::move(aliases);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> aliases;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        aliases.push_back(tensor ? std::optional(alias(*tensor, argument)) : std::nullopt);
      }
      value = std::move(aliases);
    } else if (value.isDevice()) {
      const c10::Device asked = value.toDevice();
      asked_ = asked.type() == kDevice ? c10::Device(kDevice, index_of(asked)) : asked;
      value = c10::Device(asked.type() == kDevice ? c10::DeviceType::CPU : asked.type());
    } else if (value.isGenerator()) {
      const at::Generator generator = value.toGenerator();
      generator_ = generator.device();
      value = host_generator(generator);
    } else if (value.isNone() && is_generator(argument)) {
      generators_.push_back(&argument - schema_.arguments().data());
    } else if (value.isStorage()) {
      const c10::Storage storage = value.toStorage();
      if (storage.device_type() == kDevice) {
        join(storage.device(), argument);
        value = aliases_.of(storage, true);
      } else {
        offender_ = &argument;
      }
    }
  }

  at::Tensor alias(const at::Tensor& tensor, const c10::Argument& argument) {
    if (!tensor.defined()) {
      return tensor;
    }
    const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    if (tensor.device().type() == kDevice) {
      join(tensor.device(), argument);
      return aliases_.of(tensor, written);
    }
    if (tensor.device().type() != c10::DeviceType::CPU) {
      refuse_devices(device(), tensor.device(), argument);
    }
    // A number stays where it is, as with CUDA, unless the operator is to write to it.
    if ((tensor.dim() > 0 || written) && !may_be_on_host(schema_, argument)) {
      offender_ = &argument;
    }
    return tensor;
  }

  void join(c10::Device device, const c10::Argument& argument) {
    if (device_.has_value() && *device_ != device) {
      refuse_devices(*device_, device, argument);
    }
    device_ = device;
  }

  [[noreturn]] void refuse_devices(c10::Device one, c10::Device other, const c10::Argument& argument) const {
    TORCH_CHECK(
        false,
        "Expected all tensors to be on the same device, but found at least two devices, ", one, " and ", other,
        "! (argument ", argument.name(), " of ", schema_.operator_name(), ")");
  }

  // Replaces each tensor from `first` on, also those in lists.
  template <class Replace>
  static void for_each_tensor(torch::jit::Stack& stack, size_t first, Replace replace) {
    for (size_t place = first; place < stack.size(); place++) {
      IValue& value = stack[place];
      if (value.isTensor()) {
        value = replace(std::move(value).toTensor());
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list = value.toTensorList();
        for (size_t element = 0; element < list.size(); element++) {
          list.set(element, replace(list.extract(element)));
        }
      }
    }
  }

  at::Tensor adopt(at::Tensor result, size_t holders) {
    if (!result.defined() || result.device().type() == kDevice) {
      return result;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(
        result.layout() == c10::kStrided && !result.is_quantized() && !result.is_nested() && result.has_storage(),
        schema_.operator_name(), " gives a tensor of layout ", result.layout(), " and type ", result.dtype(),
        ", and device ", device(), " has dense tensors only");
    return aliases_.adopt(result, device().index(), holders);
  }

  // How many of the results have the storage of one of them; 0 if somebody else has such a tensor.
  template <class Tensors>
  static size_t holders_of(const at::Tensor& result, const Tensors& results) {
    if (!result.defined() || !result.has_storage()) {
      return 0;
    }
    size_t count = 0;
    for (const at::Tensor& other : results) {
      if (other.defined() && other.has_storage() && other.storage().is_alias_of(result.storage())) {
        if (other.use_count() > 1) {
          return 0;
        }
        count++;
      }
    }
    return count;
  }

  const c10::FunctionSchema& schema_;
  Aliases aliases_;
  std::optional<c10::Device> device_; // of tensors
  std::optional<c10::Device> asked_; // by a Device argument
  std::optional<c10::Device> generator_; // of a generator that was given
  const c10::Argument* offender_ = nullptr; // a CPU tensor that may not be one
  c10::SmallVector<size_t, 1> generators_; // arguments in whose place the default generator is used
};

} // namespace

void call_cpu_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  check_not_forked();
  TORCH_CHECK_NOT_IMPLEMENTED(
      op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU),
      op.schema().operator_name(), " is not implemented for device ", c10::DeviceTypeName(kDevice, true),
      ", and neither for the CPU, whose kernels it uses");
  TimedCall timed(op, *stack);
  HostCall call(op.schema());
  call.take_arguments(*stack);
  {
    const Placement placement(call.device().type() == kDevice ? call.device().index() : -1);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  call.give_results(*stack);
  timed.end(*stack);
}

namespace {

// PyTorch's composition of an operator, as one operator that takes time. Its kernel is that of every device.
void call_composed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  TimedCall timed(op, *stack);
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  timed.end(*stack);
}

void refuse_layout(const c10::OperatorHandle& op, torch::jit::Stack* /*stack*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false,
      op.schema().operator_name(), " is not implemented for sparse, quantized and nested tensors of device ",
      c10::DeviceTypeName(kDevice, true), ", which has dense tensors only");
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&call_cpu_kernel>());
}

// Operators that PyTorch composes of functions for devices that it knows.
constexpr std::array<std::string_view, 2> kLikeCpu = {"aten::conj_physical_", "aten::mode.values"};

bool is_like_cpu(std::string_view name) {
  return std::find(kLikeCpu.begin(), kLikeCpu.end(), name) != kLikeCpu.end();
}

// Operators of the device that operators.cpp has.
bool is_overrideable(std::string_view name) {
  return name.find("_overrideable") != std::string_view::npos;
}

bool has_any_kernel(const c10::OperatorHandle& op, std::initializer_list<c10::DispatchKey> keys) {
  return std::any_of(keys.begin(), keys.end(), [&](c10::DispatchKey key) { return op.hasKernelForDispatchKey(key); });
}

// Operators that PyTorch composes of others on a device that it does not know.
//
// Where the CPU has a kernel of their own, they run that too, which is faster, and their results are the CPU's to the
// last bit. Others are one operator in time: the one that programs, profilers and modes of dispatch see.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using Key = c10::DispatchKey;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.getNamespace() != "aten") {
      continue;
    }
    const c10::OperatorHandle op = dispatcher.findSchemaOrThrow(name.name.c_str(), name.overload_name.c_str());
    const std::string full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    const bool is_explicit =
        has_any_kernel(op, {Key::CompositeExplicitAutograd, Key::CompositeExplicitAutogradNonFunctional});
    const bool is_composed = is_explicit || has_any_kernel(op, {Key::CompositeImplicitAutograd});
    if (is_widened(full) || is_overrideable(full)) {
      continue;
    }
    if (is_like_cpu(full) || (is_composed && op.hasKernelForDispatchKey(Key::CPU))) {
      m.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&call_cpu_kernel>());
    } else if (is_explicit && !is_free(op)) {
      m.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&call_composed>());
    }
  }
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_layout>());
}

TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_layout>());
}

TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_layout>());
}

TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_layout>());
}

} // namespace
} // namespace cubeyard
