// Times of operators for torch.autograd.profiler without Kineto (use_kineto=False): events on the current stream around
// each operator.
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>

#include "shim.h"

namespace cubeyard {
namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

class Events final : public torch::profiler::impl::ProfilerStubs {
 public:
  bool enabled() const override {
    return device_count() > 0;
  }

  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    const c10::DeviceIndex current = current_device();
    if (device != nullptr) {
      *device = current;
    }
    allocator_of(current); // A device that is not made has no streams.
    *event = std::make_shared<uint64_t>(cubeyard_torch_record(current, current_stream(current)));
    if (cpu_ns != nullptr) {
      *cpu_ns = c10::getTime();
    }
  }

  // Microseconds of simulated time.
  float elapsed(const ProfilerVoidEventStub* event, const ProfilerVoidEventStub* event2) const override {
    return static_cast<float>(static_cast<double>(time(*event2) - time(*event)) / 1e6);
  }

  void onEachDevice(std::function<void(int)> op) const override {
    for (c10::DeviceIndex device = 0; device < device_count(); device++) {
      op(device);
    }
  }

  void synchronize() const override {
    cubeyard_torch_wait(cubeyard_torch_idle(current_device()));
  }

  // Marks and ranges are for profilers of other vendors.
  void mark(const char* /*name*/) const override {}
  void rangePush(const char* /*name*/) const override {}
  void rangePop() const override {}

 private:
  static int64_t time(const ProfilerVoidEventStub& event) {
    return static_cast<int64_t>(*static_cast<const uint64_t*>(event.get()));
  }
};

const bool events_registered = [] {
  static Events events;
  torch::profiler::impl::registerPrivateUse1Methods(&events);
  return true;
}();

} // namespace
} // namespace cubeyard
