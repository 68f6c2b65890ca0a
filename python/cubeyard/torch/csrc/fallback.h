// The way from an operator of the device to the CPU's kernel.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace cubeyard {

// Runs the CPU's kernel of `op` on the arguments at the end of the stack, and leaves its results there.
void call_cpu_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack);

} // namespace cubeyard
