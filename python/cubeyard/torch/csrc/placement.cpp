// Device memory for CPU kernels: a CPU allocator that gives memory of a device where a Placement says so.
#include <c10/core/CPUAllocator.h>

#include "shim.h"

namespace cubeyard {
namespace {

// Only the thread that runs a kernel for a device has one: threads that work for it allocate ordinary memory.
thread_local c10::DeviceIndex placement = -1;

// The CPU allocator that was there before.
c10::Allocator* ordinary = nullptr;

// Bytes of the largest element. So little is mostly a scalar argument that a kernel makes a tensor of, which is none of
// the device's memory; a result of one element is copied to it.
constexpr size_t kElement = 16;

class PlacingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (placement < 0 || bytes <= kElement) {
      return ordinary->allocate(bytes);
    }
    return SpyreAllocator::instance().allocate_on_host(bytes, placement);
  }

  // Frees what either of them has allocated: a kernel may free memory when its Placement is gone.
  c10::DeleterFnPtr raw_deleter() const override {
    return ordinary->raw_deleter() == nullptr ? nullptr : &free;
  }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void free(void* pointer) {
    if (device_count() > 0 && device_of(static_cast<char*>(pointer) - space().distance) >= 0) {
      SpyreAllocator::ReportAndDelete(pointer);
    } else {
      ordinary->raw_deleter()(pointer);
    }
  }
};

// The default allocator's is 0. Where another library sets one above this, results of kernels are
// copied to the device.
constexpr uint8_t kPriority = 1;

const bool installed = [] {
  ordinary = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&placing_allocator(), kPriority);
  return true;
}();

} // namespace

c10::Allocator& placing_allocator() {
  static auto* const allocator = new PlacingAllocator;
  return *allocator;
}

Placement::Placement(c10::DeviceIndex device) noexcept : previous_(placement) {
  placement = device;
}

Placement::~Placement() {
  placement = previous_;
}

} // namespace cubeyard
