// Descriptions of operators, which their times are remembered by.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cubeyard {

using Words = c10::SmallVectorImpl<uint64_t>;

// Meaning of an argument, where its value alone does not say it.
enum class Role : uint8_t { kPlain, kNumber, kType };

// An operator as this file needs it.
struct OperatorInfo {
  std::string name; // with overload
  std::vector<Role> roles; // of the arguments
  uint64_t number; // among the operators that were seen
  size_t returns;
  bool is_free;
  bool makes_host_wait; // it has a result whose value or size the host gets from the device
  bool waits_for_masks; // likewise, but only with a mask among its arguments
};

// The operator. It is described at the first call.
const OperatorInfo& info_of(const c10::OperatorHandle& op);

// Whether `op` takes no time of a device: a view, a new tensor without contents, or a question about a tensor.
bool is_free(const c10::OperatorHandle& op);

// Writer of the words for the arguments and results of a call.
struct Description {
  Words& words;
  int64_t& device; // first one among the tensors; -1 before
  bool has_mask = false;

  void add(const c10::IValue& value, Role role);

 private:
  void add_tensor(const at::Tensor& tensor);
  void add_number(double value);
  void add_integer(int64_t value, Role role);
};

} // namespace cubeyard
