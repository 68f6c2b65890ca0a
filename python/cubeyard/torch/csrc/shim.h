// The parts of the shim, and what each has for the others.
//
// The shim holds no policy: memory, streams and time are those of cubeyard.h and cubeyard_torch.h. It is compiled
// for one minor version of PyTorch.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>
#include <c10/util/SmallVector.h>
#include <c10/util/flat_hash_map.h>

#include "cubeyard_torch.h"

namespace cubeyard {

inline constexpr c10::DeviceType kDevice = c10::DeviceType::PrivateUse1;

// Most devices that an index of PyTorch's can tell apart.
inline constexpr int kMaxDevices = 128;

// ---- Errors -------------------------------------------------------------------------------------

// Raises what the last call on this thread says, as torch.OutOfMemoryError where memory has run out.
[[noreturn]] void raise(cubeyard_status status);

inline void check(cubeyard_status status) {
  if (status != CUBEYARD_OK) {
    raise(status);
  }
}

// Notes that this process uses devices.
void note_use() noexcept;

// True in a child of a process that used devices before the fork. Their memory is the parent's.
bool forked() noexcept;

// Raises in such a child.
void check_not_forked();

// ---- Devices and streams of a thread (guard.cpp) ------------------------------------------------

// Number of devices; 0 if they cannot be had.
c10::DeviceIndex device_count() noexcept;

// Raises if there is no device of that index, with the reason.
void check_device(c10::DeviceIndex device);

// Device of this thread.
c10::DeviceIndex current_device() noexcept;

// Stream of this thread on a device.
uint32_t current_stream(c10::DeviceIndex device) noexcept;

// The device that is meant: the current one where no index is given.
inline c10::DeviceIndex index_of(c10::Device device) {
  return device.has_index() ? device.index() : current_device();
}

// Lets the host wait for the current stream of a device.
inline void wait_for_current_stream(c10::DeviceIndex device) {
  cubeyard_torch_wait(cubeyard_torch_record(device, current_stream(device)));
}

// ---- Device memory (allocator.cpp) --------------------------------------------------------------

// Where device memory is. Raises if there is no device.
const cubeyard_torch_space& space();

// What a DataPtr owns: a block of a device.
struct SharedOwnerCtx {
  cubeyard_block block;
  int64_t device;
  size_t bytes; // as asked for
};

// Memory of the devices for PyTorch.
class SpyreAllocator final : public c10::DeviceAllocator {
 public:
  static SpyreAllocator& instance();

  // Memory of the current device for its current stream.
  c10::DataPtr allocate(size_t bytes) override;
  // The same of a given device.
  c10::DataPtr allocate(size_t bytes, c10::DeviceIndex device);
  // The same at the address at which the host can use it, with the CPU as its device.
  c10::DataPtr allocate_on_host(size_t bytes, c10::DeviceIndex device);

  // Frees the block at a pointer, as the device or as the host has it.
  static void ReportAndDelete(void* context) noexcept;

  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override;

  bool initialized() override;
  void emptyCache(c10::MempoolId_t pool) override;
  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override;
};

// Allocator of a device, which is made at the first call.
cubeyard_allocator* allocator_of(c10::DeviceIndex device);

// True if the device's allocator was made.
bool has_allocator(c10::DeviceIndex device) noexcept;

// Device whose memory a pointer points into, or -1.
c10::DeviceIndex device_of(const void* pointer);

// What owns the block that starts at a pointer of a device; null if none does.
const SharedOwnerCtx* owner_of(const void* pointer);

// The same byte for the host, if the pointer is one of a device.
void* host_pointer(const void* pointer);

// True for memory from SpyreAllocator::allocate_on_host.
bool is_device_memory_on_host(const c10::DataPtr& pointer);

// Turns memory from SpyreAllocator::allocate_on_host into memory of its device.
c10::DataPtr to_device(c10::DataPtr pointer);

// Gives a storage of a device room for so many bytes, and keeps what it has.
void resize_storage(c10::StorageImpl& storage, size_t bytes);

// ---- Memory of CPU kernels (placement.cpp) ------------------------------------------------------

// While it lives, what this thread allocates for the CPU is memory of a device; -1 stands for ordinary memory.
class Placement {
 public:
  explicit Placement(c10::DeviceIndex device) noexcept;
  ~Placement();
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;

 private:
  c10::DeviceIndex previous_;
};

// CPU allocator that follows Placement.
c10::Allocator& placing_allocator();

// ---- Aliases for CPU kernels (alias.cpp) --------------------------------------------------------

// Places in a list by the addresses of its elements: a search where they are few, a table where they are many.
class Places {
 public:
  static constexpr size_t kNone = SIZE_MAX;

  size_t find(const void* key) const {
    if (keys_.size() > kFew) {
      const auto found = table_.find(key);
      return found == table_.end() ? kNone : found->second;
    }
    for (size_t place = 0; place < keys_.size(); place++) {
      if (keys_[place] == key) {
        return place;
      }
    }
    return kNone;
  }

  void push_back(const void* key) {
    keys_.push_back(key);
    if (keys_.size() > kFew) {
      for (size_t place = table_.size(); place < keys_.size(); place++) {
        table_.emplace(keys_[place], place);
      }
    }
  }

 private:
  static constexpr size_t kFew = 8;
  c10::SmallVector<const void*, kFew> keys_;
  ska::flat_hash_map<const void*, size_t> table_;
};

// CPU tensors over the memory of device tensors, for one call of a CPU kernel.
//
// Tensors that share a storage get aliases that share one, and the same tensor gets the same alias, so that a
// kernel sees overlaps as they are. Originals live at least as long as their aliases.
class Aliases {
 public:
  // An alias of a device tensor. `written` says that the kernel may write to it.
  at::Tensor of(const at::Tensor& original, bool written);
  // An alias of a device's storage.
  c10::Storage of(const c10::Storage& original, bool written);

  // Lets originals follow what a kernel did to sizes and storages of their aliases.
  void follow();

  // The tensor of `device` for a result of a kernel: the original of an alias, a view of an original, or a tensor
  // over the memory that the kernel allocated. `holders` is how many results have this one's storage.
  at::Tensor adopt(const at::Tensor& result, c10::DeviceIndex device, size_t holders);

 private:
  struct AliasedStorage {
    c10::Storage original;
    c10::Storage alias;
    const void* data; // of the alias, before the call
    size_t bytes;
  };
  struct AliasedTensor {
    at::Tensor original;
    at::Tensor alias;
    const c10::StorageImpl* storage; // of the alias, before the call
  };

  const c10::Storage& alias_of(const c10::Storage& original, bool written);
  void add(AliasedStorage storage);
  c10::Storage device_storage(const at::Tensor& result, c10::DeviceIndex device, size_t holders);

  c10::SmallVector<AliasedStorage, 4> storages_;
  c10::SmallVector<AliasedTensor, 4> tensors_;
  // By the addresses of originals, and by those of aliases.
  Places storage_places_, tensor_places_, storage_alias_places_, tensor_alias_places_;
};

// ---- Other parts --------------------------------------------------------------------------------

// Generator of a device (generator.cpp).
const at::Generator& default_generator(c10::DeviceIndex device);
at::Generator new_generator(c10::DeviceIndex device);
// The CPU generator that a device's generator draws from.
const at::Generator& host_generator(const at::Generator& generator);

// Page-locked host memory (host_memory.cpp).
at::HostAllocator& host_allocator();
bool is_host_memory(const void* pointer);

} // namespace cubeyard
