// The way from an operator of the device to the CPU's kernel.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string_view>

namespace cubeyard {

// Runs the CPU's kernel of `op` on the arguments at the end of the stack, and leaves its results there.
void call_cpu_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// True for an operator with a kernel of its own, which computes short floating-point numbers in longer ones
// (like_cuda.cpp). It is named with its namespace.
bool is_widened(std::string_view name);

} // namespace cubeyard
