// Devices, streams and events, as PyTorch asks for them.
#include <pthread.h>

#include <array>
#include <mutex>

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "shim.h"
#include "timing.h"

namespace cubeyard {
namespace {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

thread_local DeviceIndex thread_device = 0;
thread_local std::array<uint32_t, kMaxDevices> thread_streams{};

std::atomic<bool> used{false};
std::atomic<bool> in_child{false};

const bool watching = [] {
  return pthread_atfork(nullptr, nullptr, [] { in_child = used.load(); }) == 0;
}();

uint32_t number(const Stream& stream) {
  return static_cast<uint32_t>(stream.id());
}

// Time at which a stream will have done its work.
uint64_t end_of(const Stream& stream) {
  check_not_forked();
  return cubeyard_torch_record(stream.device_index(), number(stream));
}

Stream stream_of(Device device, uint32_t stream) {
  return Stream(Stream::UNSAFE, Device(kDevice, index_of(device)), stream);
}

uint32_t new_stream(DeviceIndex device, int priority) {
  allocator_of(device);
  uint32_t stream = 0;
  check(cubeyard_torch_stream_new(device, priority, &stream));
  return stream;
}

// Streams that are lent in turn, of one device and one priority.
class StreamPool {
 public:
  uint32_t next(DeviceIndex device, int priority) {
    const std::lock_guard lock(mutex_);
    if (streams_.size() < kStreams) {
      streams_.push_back(new_stream(device, priority));
    }
    return streams_[turn_++ % kStreams];
  }

 private:
  static constexpr size_t kStreams = 32; // as CUDA has
  std::mutex mutex_;
  std::vector<uint32_t> streams_;
  size_t turn_ = 0;
};

// A point of a stream: the time at which the stream passes it.
struct Event {
  uint64_t time;
};

uint64_t time_of(void* event) {
  return static_cast<Event*>(event)->time;
}

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override {
    return kDevice;
  }

  Device exchangeDevice(Device device) const override {
    const Device previous = getDevice();
    setDevice(device);
    return previous;
  }

  Device getDevice() const override {
    return {kDevice, thread_device};
  }

  void setDevice(Device device) const override {
    if (index_of(device) != thread_device) {
      check_device(device.index());
      thread_device = device.index();
    }
  }

  void uncheckedSetDevice(Device device) const noexcept override {
    thread_device = index_of(device);
  }

  DeviceIndex deviceCount() const noexcept override {
    return device_count();
  }

  // ---- Streams ----

  Stream getStream(Device device) const override {
    return stream_of(device, current_stream(index_of(device)));
  }

  Stream getDefaultStream(Device device) const override {
    return stream_of(device, 0);
  }

  Stream getNewStream(Device device, int priority) const override {
    return stream_of(device, new_stream(index_of(device), priority));
  }

  Stream getStreamFromGlobalPool(Device device, bool high_priority) const override {
    static auto* const pools = new std::array<std::array<StreamPool, 2>, kMaxDevices>;
    const DeviceIndex index = index_of(device);
    check_device(index);
    return stream_of(device, (*pools)[index][high_priority].next(index, high_priority ? -1 : 0));
  }

  Stream exchangeStream(Stream stream) const override {
    const Stream previous = getStream(stream.device());
    thread_streams[stream.device_index()] = number(stream);
    return previous;
  }

  void* getStreamNativeHandle(const Stream stream) const override {
    return reinterpret_cast<void*>(stream.id());
  }

  bool queryStream(const Stream& stream) const override {
    return cubeyard_torch_passed(end_of(stream)) != 0;
  }

  void synchronizeStream(const Stream& stream) const override {
    cubeyard_torch_wait(end_of(stream));
  }

  void synchronizeDevice(const DeviceIndex device) const override {
    check_device(device);
    cubeyard_torch_wait(cubeyard_torch_idle(device));
  }

  // ---- Events ----

  void record(void** event, const Stream& stream, const DeviceIndex device, const c10::EventFlag /*flag*/) const override {
    TORCH_CHECK(
        device < 0 || device == stream.device_index(),
        "Event of device ", int{device}, " cannot be recorded on a stream of device ", int{stream.device_index()});
    const uint64_t time = end_of(stream);
    if (*event == nullptr) {
      *event = new Event{time};
    } else {
      static_cast<Event*>(*event)->time = time;
    }
  }

  void block(void* event, const Stream& stream) const override {
    if (event != nullptr) {
      allocator_of(stream.device_index()); // A device that is not made has no streams to wait.
      cubeyard_torch_stream_wait(stream.device_index(), number(stream), time_of(event));
    }
  }

  bool queryEvent(void* event) const override {
    return event == nullptr || cubeyard_torch_passed(time_of(event)) != 0;
  }

  void synchronizeEvent(void* event) const override {
    if (event != nullptr) {
      cubeyard_torch_wait(time_of(event));
    }
  }

  void destroyEvent(void* event, const DeviceIndex /*device*/) const noexcept override {
    delete static_cast<Event*>(event);
  }

  // Milliseconds from the first to the second.
  double elapsedTime(void* first, void* second, const DeviceIndex /*device*/) const override {
    const auto picoseconds = static_cast<int64_t>(time_of(second) - time_of(first));
    if (picoseconds == 0) {
      warn_if_untimed();
    }
    return static_cast<double>(picoseconds) / 1e9;
  }

  void recordDataPtrOnStream(const c10::DataPtr& pointer, const Stream& stream) const override {
    SpyreAllocator::instance().recordStream(pointer, stream);
  }

  c10::DeviceCapability getDeviceCapability(Device /*device*/) const override {
    return {}; // Every type that the CPU has.
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

} // namespace

void note_use() noexcept {
  used.store(true, std::memory_order_relaxed);
}

bool forked() noexcept {
  return in_child.load(std::memory_order_relaxed);
}

void check_not_forked() {
  TORCH_CHECK(
      !forked(),
      "Cannot use device ", c10::DeviceTypeName(kDevice, true),
      " in a forked subprocess: its memory is the parent's. Use the 'spawn' start method of multiprocessing");
}

DeviceIndex device_count() noexcept {
  // A count that was found stays; one that failed is asked for again, so that its reason can be told.
  static std::atomic<int> known{0};
  if (const int count = known.load(std::memory_order_relaxed); count > 0) {
    return static_cast<DeviceIndex>(count);
  }
  uint32_t count = 0;
  if (cubeyard_torch_device_count(&count) != CUBEYARD_OK) {
    return 0;
  }
  known = static_cast<int>(std::min<uint32_t>(count, kMaxDevices - 1));
  return static_cast<DeviceIndex>(known.load());
}

void check_device(DeviceIndex device) {
  check_not_forked();
  const DeviceIndex count = device_count();
  if (count == 0) {
    uint32_t ignored = 0;
    check(cubeyard_torch_device_count(&ignored));
  }
  TORCH_CHECK(
      device >= 0 && device < count,
      "Device index is ", int{device}, ": expected 0 to ", count - 1, ", since there are ", int{count},
      " devices of type ", c10::DeviceTypeName(kDevice, true));
}

DeviceIndex current_device() noexcept {
  return thread_device;
}

uint32_t current_stream(DeviceIndex device) noexcept {
  return thread_streams[device];
}

} // namespace cubeyard
