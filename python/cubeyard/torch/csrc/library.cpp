// Operators of namespace ahbm: what the Python side needs and PyTorch's own interfaces do not have.
#include <torch/csrc/autograd/engine.h>
#include <torch/library.h>

#include "shim.h"
#include "timing.h"

namespace cubeyard {
namespace {

c10::DeviceIndex checked(int64_t device) {
  TORCH_CHECK(device >= 0 && device < kMaxDevices, "Device index is ", device, ": expected 0 to ", device_count() - 1);
  check_device(static_cast<c10::DeviceIndex>(device));
  return static_cast<c10::DeviceIndex>(device);
}

// Slot and key of the tensor's block, its device, the offset of its first element in the block and the bytes of its
// storage; nothing for a tensor without memory.
std::vector<int64_t> block(const at::Tensor& self) {
  TORCH_CHECK(
      self.device().type() == kDevice,
      "Tensor is on device ", self.device(), ": expected a tensor of device ", c10::DeviceTypeName(kDevice, true));
  const void* start = self.storage().data();
  if (start == nullptr) {
    return {};
  }
  const SharedOwnerCtx* owner = owner_of(start);
  TORCH_CHECK(owner != nullptr, "Tensor's storage is not at the start of a block of device memory");
  return {
      static_cast<int64_t>(owner->block.slot),
      static_cast<int64_t>(owner->block.key),
      owner->device,
      self.storage_offset() * static_cast<int64_t>(self.itemsize()),
      static_cast<int64_t>(self.storage().nbytes())};
}

void sleep(int64_t picoseconds) {
  TORCH_CHECK(picoseconds >= 0, "picoseconds is ", picoseconds, ": expected 0 or more");
  const c10::DeviceIndex device = current_device();
  allocator_of(device); // A device that is not made has no streams.
  cubeyard_torch_work(device, current_stream(device), picoseconds);
}

// Generator that operators of a device use if they are given none.
at::Generator generator(int64_t device) {
  return default_generator(checked(device));
}

// Requests and bytes in use, then blocks and bytes that are mapped: current, peak, allocated and freed of each.
std::vector<int64_t> host_statistics() {
  const at::HostStats stats = host_allocator().get_stats();
  std::vector<int64_t> figures;
  for (const auto* stat : {&stats.active_requests, &stats.active_bytes, &stats.allocations, &stats.allocated_bytes}) {
    figures.insert(figures.end(), {stat->current, stat->peak, stat->allocated, stat->freed});
  }
  return figures;
}

void empty_host_cache() {
  host_allocator().empty_cache();
}

// Ends the threads of the autograd engine, which has one for each device.
void stop_autograd() {
  torch::autograd::Engine::get_default_engine().stop();
}

// PyTorch's number of an element type.
int64_t type_number(c10::ScalarType type) {
  return static_cast<int64_t>(type);
}

TORCH_LIBRARY(ahbm, m) {
  m.def("_block(Tensor self) -> int[]");
  m.impl("_block", c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(block));
  m.def("_sleep(int picoseconds) -> ()", TORCH_FN(sleep));
  m.def("_default_generator(int device) -> Generator?", TORCH_FN(generator));
  m.def("_host_statistics() -> int[]", TORCH_FN(host_statistics));
  m.def("_empty_host_cache() -> ()", TORCH_FN(empty_host_cache));
  m.def("_stop_autograd() -> ()", TORCH_FN(stop_autograd));
  m.def("_type_number(ScalarType type) -> int", TORCH_FN(type_number));
  m.def("_forget_costs() -> ()", TORCH_FN(forget_costs));
  m.def("_warn_if_untimed() -> ()", TORCH_FN(warn_if_untimed));
}

} // namespace
} // namespace cubeyard
