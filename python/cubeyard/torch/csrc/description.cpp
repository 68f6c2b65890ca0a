// Descriptions of operators, which their times are remembered by.
#include "description.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "shim.h"

namespace cubeyard {

using c10::IValue;

namespace {

// ---- Operators ----------------------------------------------------------------------------------

// Operators that make tensors without contents, or change where a tensor has its contents.
constexpr std::array<std::string_view, 9> kEmpty = {
    "aten::empty", "aten::new_empty", "aten::resize", "aten::_resize", "aten::set_",
    "aten::_efficientzerotensor", "aten::record_stream", "aten::_pin_memory", "aten::lift"};

// Namespaces whose operators take time by themselves: collectives, and the shim's own.
constexpr std::array<std::string_view, 4> kOthers = {"c10d", "_c10d_functional", "_c10d_functional_autograd", "ahbm"};

bool has_tensor(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::TensorType) {
    return true;
  }
  for (const auto& part : type.containedTypes()) {
    if (has_tensor(*part)) {
      return true;
    }
  }
  return false;
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// True if every result is a view of an argument.
bool is_view(const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() == nullptr || is_written(result)) {
      return false;
    }
  }
  return !schema.returns().empty();
}

// True if an operator neither gives nor writes a tensor.
bool is_question(const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns()) {
    if (has_tensor(*result.type())) {
      return false;
    }
  }
  for (const c10::Argument& argument : schema.arguments()) {
    if (is_written(argument)) {
      return false;
    }
  }
  return true;
}

Role role_of(const c10::Argument& argument) {
  const auto element = [](c10::TypePtr type) {
    while (type->kind() == c10::TypeKind::OptionalType || type->kind() == c10::TypeKind::ListType) {
      type = type->containedType(0);
    }
    return type->kind();
  };
  if (element(argument.real_type()) == c10::TypeKind::ScalarTypeType) {
    return Role::kType;
  }
  const c10::TypeKind kind = element(argument.type());
  return kind == c10::TypeKind::NumberType || kind == c10::TypeKind::FloatType ? Role::kNumber : Role::kPlain;
}

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

OperatorInfo describe(const c10::OperatorHandle& op, uint64_t number) {
  OperatorInfo info;
  info.name = full_name(op.operator_name());
  info.number = number;
  info.returns = op.schema().returns().size();
  for (const c10::Argument& argument : op.schema().arguments()) {
    info.roles.push_back(role_of(argument));
  }
  info.is_free = is_free(op);
  const bool shaped = op.hasTag(at::Tag::dynamic_output_shape);
  info.waits_for_masks = shaped && info.name.rfind("aten::index", 0) == 0;
  info.makes_host_wait = op.hasTag(at::Tag::data_dependent_output) || (shaped && !info.waits_for_masks);
  return info;
}

// The operators that were seen, by their schemas, since an operator may end and another one have its name.
const OperatorInfo* known_operator(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  static auto* const known = new std::unordered_map<std::string, OperatorInfo>;
  const std::string schema = c10::toString(op.schema());
  const std::lock_guard lock(mutex);
  const auto found = known->find(schema);
  return &(found != known->end() ? found : known->emplace(schema, describe(op, known->size())).first)->second;
}

// ---- Words --------------------------------------------------------------------------------------

// A value is a word with its kind in the lowest byte and a number above it, then words of its own. _costs.py reads it.
enum Kind : uint64_t {
  kNone, // also a value that cannot matter: a device, a generator
  kBool, // the number
  kInteger, // a word
  kFloat, // a word with its bits
  kSomeNumber, // a scalar whose value cannot matter
  kText, // the number of bytes; eight of them in a word
  kList, // the number of values, which follow
  kTensor, // type and number of dimensions; sizes, then strides
  kType, // the number
};

uint64_t head(Kind kind, uint64_t number = 0) {
  return kind | number << 8;
}

// Scalars that a kernel may treat by themselves. Others, such as the learning rate of a step, have one time.
bool is_special(double value) {
  const double size = std::fabs(value);
  return size == 0 || size == 0.5 || size == 1 || size == 2 || size == 3;
}

void add_text(Words& words, std::string_view text) {
  words.push_back(head(kText, text.size()));
  for (size_t at = 0; at < text.size(); at += 8) {
    uint64_t word = 0;
    for (size_t byte = at; byte < std::min(at + 8, text.size()); byte++) {
      word |= static_cast<uint64_t>(static_cast<unsigned char>(text[byte])) << 8 * (byte - at);
    }
    words.push_back(word);
  }
}

// Strides of dimensions with one element are those of a contiguous tensor: nothing depends on them.
void add_shape(Words& words, const at::Tensor& tensor) {
  const at::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
  words.push_back(head(kTensor, static_cast<uint64_t>(tensor.scalar_type()) | sizes.size() << 8));
  words.insert(words.end(), sizes.begin(), sizes.end());
  const size_t first = words.size();
  words.resize(first + sizes.size());
  int64_t next = 1;
  for (size_t place = sizes.size(); place-- > 0;) {
    const int64_t stride = sizes[place] == 1 ? next : strides[place];
    words[first + place] = static_cast<uint64_t>(stride);
    next = stride * std::max<int64_t>(sizes[place], 1);
  }
}

} // namespace

bool is_free(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  for (const std::string_view prefix : kEmpty) {
    if (name.rfind(prefix, 0) == 0) {
      return true;
    }
  }
  for (const std::string_view other : kOthers) {
    if (op.operator_name().getNamespace() == other) {
      return true;
    }
  }
  return is_view(op.schema()) || (is_question(op.schema()) && !op.hasTag(at::Tag::data_dependent_output));
}

bool has_arity(const OperatorInfo& info, const c10::FunctionSchema& schema) {
  return info.roles.size() == schema.arguments().size() && info.returns == schema.returns().size();
}

// From this thread's table. An operator may end, and another one have its place in memory.
const OperatorInfo& info_of(const c10::OperatorHandle& op) {
  struct Seen {
    c10::OperatorName name;
    const OperatorInfo* info;
  };
  thread_local ska::flat_hash_map<const void*, Seen> seen;
  const c10::OperatorName& name = op.operator_name();
  const auto found = seen.find(&name);
  if (found != seen.end() && found->second.name == name && has_arity(*found->second.info, op.schema())) {
    return *found->second.info;
  }
  const OperatorInfo* info = known_operator(op);
  seen.insert_or_assign(&name, Seen{name, info});
  return *info;
}

void Description::add_tensor(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    words.push_back(kNone);
  } else if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    words.push_back(kSomeNumber);
  } else {
    if (device < 0 && tensor.device().type() == kDevice) {
      device = tensor.device().index();
    }
    has_mask |= tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte;
    add_shape(words, tensor);
  }
}

void Description::add_number(double value) {
  words.push_back(is_special(value) ? kFloat : kSomeNumber);
  if (is_special(value)) {
    words.push_back(std::bit_cast<uint64_t>(value));
  }
}

void Description::add_integer(int64_t value, Role role) {
  if (role == Role::kNumber && !is_special(static_cast<double>(value))) {
    words.push_back(kSomeNumber);
  } else if (role == Role::kType) {
    words.push_back(head(kType, static_cast<uint64_t>(value)));
  } else {
    words.push_back(kInteger);
    words.push_back(static_cast<uint64_t>(value));
  }
}

void Description::add(const IValue& value, Role role) {
  if (value.isTensor()) {
    add_tensor(value.toTensor());
  } else if (value.isBool()) {
    words.push_back(head(kBool, value.toBool()));
  } else if (value.isInt()) {
    add_integer(value.toInt(), role);
  } else if (value.isDouble()) {
    add_number(value.toDouble());
  } else if (value.isComplexDouble()) {
    words.push_back(kSomeNumber);
  } else if (value.isString()) {
    add_text(words, value.toStringRef());
  } else if (value.isList()) {
    const auto list = value.toListRef();
    words.push_back(head(kList, list.size()));
    for (const IValue& element : list) {
      add(element, role);
    }
  } else {
    words.push_back(kNone);
  }
}

} // namespace cubeyard
