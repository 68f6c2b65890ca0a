// Simulated time of operators and copies. This is the only part of the shim that takes time of a stream for them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <cstdint>

namespace cubeyard {

struct OperatorInfo;

// One call of an operator, which takes time when it has ended. Operators that are called within it take none.
//
// The time depends on the operator, and on the shapes, strides and types of its tensors. It is asked for once.
class TimedCall {
 public:
  // Notes the arguments at the end of the stack.
  TimedCall(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  ~TimedCall();
  TimedCall(const TimedCall&) = delete;
  TimedCall& operator=(const TimedCall&) = delete;

  // Takes the time. The results are at the end of the stack.
  void end(const torch::jit::Stack& stack);

 private:
  const OperatorInfo* info_ = nullptr; // of an operator that takes time
  bool entered_ = false;
  bool waits_ = false; // The host waits for the result.
  int64_t device_ = -1;
  c10::SmallVector<uint64_t, 64> words_; // see description.cpp
};

// Takes the time of a copy between the host and a device, or between devices. A copy within a device is an operator.
void take_time_of_copy(const at::Tensor& from, const at::Tensor& to);

// Takes the time of an element on its way to the host.
void take_time_of_item(const at::Tensor& tensor);

// Forgets the times of operators.
void forget_costs();

// Warns, once, that operators of this process took no time.
void warn_if_untimed();

} // namespace cubeyard
