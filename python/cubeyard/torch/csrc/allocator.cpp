// Device memory for PyTorch, from the allocators of the devices.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "shim.h"

namespace cubeyard {
namespace {

// Smallest distance of two blocks, which the allocators promise.
constexpr size_t kGranule = 128;

std::array<std::atomic<cubeyard_allocator*>, kMaxDevices> allocators{};

cubeyard_torch_space space_of_devices() {
  note_use();
  cubeyard_torch_space space;
  check(cubeyard_torch_get_space(&space));
  return space;
}

// Owners by the pointers of their blocks: a table of two levels over all device memory, whose lower parts are made
// when they are needed. An owner is found without a lock, also after a fork, when a lock may be held by a thread that
// is gone. Two threads never use an entry at a time, since a block has one owner.
class Owners {
 public:
  // The entry of an offset in device memory.
  SharedOwnerCtx& entry(uint64_t offset) {
    std::atomic<SharedOwnerCtx*>& place = parts_[offset / kPart];
    SharedOwnerCtx* part = place.load(std::memory_order_acquire);
    if (part == nullptr) {
      part = make(place);
    }
    return part[offset % kPart / kGranule];
  }

 private:
  static constexpr uint64_t kPart = uint64_t{4} << 20; // bytes of device memory

  template <class Entry>
  static Entry* zeros(size_t count) {
    void* place = std::calloc(count, sizeof(Entry));
    TORCH_CHECK_WITH(
        OutOfMemoryError, place != nullptr,
        "Host has no ", count * sizeof(Entry), " bytes of memory for the owners of device memory");
    return static_cast<Entry*>(place);
  }

  static SharedOwnerCtx* make(std::atomic<SharedOwnerCtx*>& place) {
    auto* part = zeros<SharedOwnerCtx>(kPart / kGranule);
    SharedOwnerCtx* other = nullptr;
    if (!place.compare_exchange_strong(other, part, std::memory_order_acq_rel)) {
      std::free(part); // Another thread was first.
      return other;
    }
    return part;
  }

  // Never freed: blocks are freed as long as the process lives.
  std::atomic<SharedOwnerCtx*>* const parts_ =
      zeros<std::atomic<SharedOwnerCtx*>>(space().span * space().devices / kPart);
};

Owners& owners() {
  static Owners owners;
  return owners;
}

uint64_t number(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

bool in_space(uint64_t pointer, uint64_t base) {
  return pointer - base < space().span * space().devices;
}

// The entry of a pointer of a device.
SharedOwnerCtx& entry_of(uint64_t pointer) {
  return owners().entry(pointer - space().base);
}

// Tells the profiler of `sign` times the bytes of a block.
void report(void* pointer, const SharedOwnerCtx& owner, int64_t sign) {
  if (!c10::memoryProfilingEnabled()) {
    return;
  }
  cubeyard_allocator* allocator = allocator_of(owner.device);
  cubeyard_block_info info;
  int64_t allocated = 0;
  int64_t reserved = 0;
  check(cubeyard_resolve(allocator, owner.block, &info));
  check(cubeyard_stat(allocator, "allocated_bytes.all.current", &allocated));
  check(cubeyard_stat(allocator, "reserved_bytes.all.current", &reserved));
  const auto bytes = static_cast<int64_t>(info.size);
  if (sign < 0) {
    allocated -= bytes; // The block is freed after this.
  }
  c10::reportMemoryUsageToProfiler(pointer, sign * bytes, allocated, reserved, c10::Device(kDevice, owner.device));
}

[[noreturn]] void refuse(cubeyard_allocator* allocator, size_t bytes, c10::DeviceIndex device, cubeyard_status status) {
  // The text is copied first: what follows may set another.
  const std::string text = cubeyard_last_error();
  int64_t allocated = 0;
  int64_t reserved = 0;
  if (cubeyard_stat(allocator, "allocated_bytes.all.current", &allocated) == CUBEYARD_OK &&
      cubeyard_stat(allocator, "reserved_bytes.all.current", &reserved) == CUBEYARD_OK) {
    c10::reportOutOfMemoryToProfiler(bytes, allocated, reserved, c10::Device(kDevice, device));
  }
  const bool out_of_memory = status == CUBEYARD_ERROR_FULL || status == CUBEYARD_ERROR_FRAGMENTED ||
      status == CUBEYARD_ERROR_TOO_BIG || status == CUBEYARD_ERROR_BUDGET;
  TORCH_CHECK_WITH(OutOfMemoryError, !out_of_memory, text);
  TORCH_CHECK(false, text);
}

// Allocates a block and notes its owner; returns the device's pointer.
uint64_t take(size_t bytes, c10::DeviceIndex device) {
  check_not_forked();
  cubeyard_allocator* allocator = allocator_of(device);
  const cubeyard_request request = {
      .size = bytes,
      .alignment = 0,
      .kind = CUBEYARD_TENSOR,
      .stream = current_stream(device),
      .site = cubeyard_torch_site(),
      .reserved = 0};
  uint32_t pool = 0;
  uint32_t tag = 0;
  check(cubeyard_torch_labels(device, &pool, &tag));
  cubeyard_block block;
  cubeyard_address address;
  // The call may run Python, whose own CPU tensors are none of the device's.
  const Placement ordinary(-1);
  if (const auto status = cubeyard_allocate_in(allocator, pool, tag, &request, &block, &address);
      status != CUBEYARD_OK) {
    refuse(allocator, bytes, device, status);
  }
  const uint64_t pointer = cubeyard_torch_pointer(device, address);
  SharedOwnerCtx& owner = entry_of(pointer);
  owner = {block, device, bytes};
  report(reinterpret_cast<void*>(pointer), owner, 1);
  return pointer;
}

// A DataPtr is its own context, as Allocator::raw_allocate asks for; what it owns is found by it.
c10::DataPtr owning(uint64_t pointer, c10::Device device) {
  auto* place = reinterpret_cast<void*>(pointer);
  return {place, place, &SpyreAllocator::ReportAndDelete, device};
}

// All figures of an allocator, of one moment.
std::map<std::string, int64_t> figures(c10::DeviceIndex device) {
  cubeyard_allocator* allocator = allocator_of(device);
  std::string text(16384, '\0');
  size_t length = 0;
  cubeyard_status status = cubeyard_stats_json(allocator, text.data(), text.size(), &length);
  while (status == CUBEYARD_ERROR_BUFFER) {
    text.resize(length);
    status = cubeyard_stats_json(allocator, text.data(), text.size(), &length);
  }
  check(status);
  // The object is flat: "key": number, with neither quotes nor colons inside of keys.
  std::map<std::string, int64_t> figures;
  for (size_t open = text.find('"'); open < length; open = text.find('"', open)) {
    const size_t close = text.find('"', open + 1);
    const size_t colon = text.find(':', close);
    figures[text.substr(open + 1, close - open - 1)] = std::strtoll(text.c_str() + colon + 1, nullptr, 10);
    open = colon;
  }
  return figures;
}

} // namespace

const cubeyard_torch_space& space() {
  static const cubeyard_torch_space space = space_of_devices();
  return space;
}

void raise(cubeyard_status status) {
  TORCH_CHECK(status == CUBEYARD_OK, cubeyard_last_error());
  std::abort(); // Nobody raises a success.
}

cubeyard_allocator* allocator_of(c10::DeviceIndex device) {
  cubeyard_allocator* allocator = allocators[device].load(std::memory_order_acquire);
  if (allocator == nullptr) {
    check_device(device);
    check(cubeyard_torch_allocator(device, &allocator));
    allocators[device].store(allocator, std::memory_order_release);
  }
  return allocator;
}

bool has_allocator(c10::DeviceIndex device) noexcept {
  return device >= 0 && allocators[device].load(std::memory_order_acquire) != nullptr;
}

c10::DeviceIndex device_of(const void* pointer) {
  if (device_count() == 0 || !in_space(number(pointer), space().base)) {
    return -1;
  }
  return static_cast<c10::DeviceIndex>((number(pointer) - space().base) / space().span);
}

const SharedOwnerCtx* owner_of(const void* pointer) {
  if (device_of(pointer) < 0 || (number(pointer) - space().base) % kGranule != 0) {
    return nullptr;
  }
  const SharedOwnerCtx& owner = entry_of(number(pointer));
  return owner.block.key != 0 || owner.block.slot != 0 ? &owner : nullptr;
}

void* host_pointer(const void* pointer) {
  const uint64_t shift = in_space(number(pointer), space().base) ? space().distance : 0;
  return reinterpret_cast<void*>(number(pointer) + shift);
}

bool is_device_memory_on_host(const c10::DataPtr& pointer) {
  return pointer.get_deleter() == &SpyreAllocator::ReportAndDelete && pointer.get() != nullptr &&
      in_space(number(pointer.get()), space().base + space().distance);
}

c10::DataPtr to_device(c10::DataPtr pointer) {
  const uint64_t place = number(pointer.release_context()) - space().distance;
  return owning(place, c10::Device(kDevice, entry_of(place).device));
}

void resize_storage(c10::StorageImpl& storage, size_t bytes) {
  TORCH_CHECK(storage.resizable(), "Trying to resize a storage that is not resizable, to ", bytes, " bytes");
  c10::DataPtr fresh = SpyreAllocator::instance().allocate(bytes, storage.device().index());
  const size_t kept = std::min(bytes, storage.nbytes());
  if (kept > 0) {
    SpyreAllocator::instance().copy_data(fresh.get(), storage.data(), kept);
  }
  storage.set_data_ptr_noswap(std::move(fresh));
  storage.set_nbytes(bytes);
}

// It is never destroyed: tensors that outlive main are freed through it.
SpyreAllocator& SpyreAllocator::instance() {
  static auto* const allocator = new SpyreAllocator;
  return *allocator;
}

c10::DataPtr SpyreAllocator::allocate(size_t bytes) {
  return allocate(bytes, current_device());
}

c10::DataPtr SpyreAllocator::allocate(size_t bytes, c10::DeviceIndex device) {
  return owning(bytes == 0 ? 0 : take(bytes, device), c10::Device(kDevice, device));
}

c10::DataPtr SpyreAllocator::allocate_on_host(size_t bytes, c10::DeviceIndex device) {
  return owning(bytes == 0 ? 0 : take(bytes, device) + space().distance, c10::DeviceType::CPU);
}

// It may run on any thread, after main has ended, and in a child of a fork, whose calls the allocator refuses: what
// fails here has nobody left to be told.
void SpyreAllocator::ReportAndDelete(void* context) noexcept {
  if (context == nullptr) {
    return;
  }
  uint64_t pointer = number(context);
  if (!in_space(pointer, space().base)) {
    pointer -= space().distance;
  }
  SharedOwnerCtx& owner = entry_of(pointer);
  try {
    report(reinterpret_cast<void*>(pointer), owner, -1);
  } catch (...) {
  }
  const cubeyard_block block = std::exchange(owner.block, {});
  cubeyard_free(allocators[owner.device].load(std::memory_order_acquire), block);
}

c10::DeleterFnPtr SpyreAllocator::raw_deleter() const {
  return &ReportAndDelete;
}

void SpyreAllocator::copy_data(void* to, const void* from, std::size_t bytes) const {
  check_not_forked();
  std::memmove(host_pointer(to), host_pointer(from), bytes);
}

bool SpyreAllocator::initialized() {
  return device_count() > 0;
}

void SpyreAllocator::emptyCache(c10::MempoolId_t /*pool*/) {
  for (c10::DeviceIndex device = 0; device < device_count(); device++) {
    if (has_allocator(device)) {
      // Freed memory may still be used by work that runs. CUDA waits for it as well.
      cubeyard_torch_wait(cubeyard_torch_idle(device));
      check(cubeyard_trim(allocator_of(device), nullptr));
    }
  }
}

void SpyreAllocator::recordStream(const c10::DataPtr& pointer, c10::Stream stream) {
  // Memory of others, such as a part of a tensor that came through DLPack, is kept by them.
  if (const SharedOwnerCtx* owner = owner_of(pointer.get())) {
    const auto number = static_cast<uint32_t>(stream.id());
    check(cubeyard_record_stream(allocator_of(owner->device), owner->block, number));
  }
}

c10::CachingDeviceAllocator::DeviceStats SpyreAllocator::getDeviceStats(c10::DeviceIndex device) {
  auto found = figures(device);
  const auto stat = [&](const std::string& name) {
    return c10::CachingAllocator::Stat{
        .current = found[name + ".current"],
        .peak = found[name + ".peak"],
        .allocated = found[name + ".allocated"],
        .freed = found[name + ".freed"]};
  };
  const auto pools = [&](const std::string& name) {
    return c10::CachingAllocator::StatArray{stat(name + ".all"), stat(name + ".small_pool"), stat(name + ".large_pool")};
  };
  c10::CachingDeviceAllocator::DeviceStats stats;
  stats.allocation = pools("allocation");
  stats.segment = pools("segment");
  stats.active = pools("active");
  stats.inactive_split = pools("inactive_split");
  stats.allocated_bytes = pools("allocated_bytes");
  stats.reserved_bytes = pools("reserved_bytes");
  stats.active_bytes = pools("active_bytes");
  stats.inactive_split_bytes = pools("inactive_split_bytes");
  stats.requested_bytes = pools("requested_bytes");
  stats.oversize_allocations = stat("oversize_allocations");
  stats.oversize_segments = stat("oversize_segments");
  stats.num_alloc_retries = found["num_alloc_retries"];
  stats.num_ooms = found["num_ooms"];
  stats.num_sync_all_streams = found["num_sync_all_streams"];
  stats.num_device_alloc = found["num_device_alloc"];
  stats.num_device_free = found["num_device_free"];
  stats.max_split_size = found["max_split_size"];
  return stats;
}

void SpyreAllocator::resetAccumulatedStats(c10::DeviceIndex device) {
  check(cubeyard_reset_accumulated_stats(allocator_of(device)));
}

void SpyreAllocator::resetPeakStats(c10::DeviceIndex device) {
  check(cubeyard_reset_peak_stats(allocator_of(device)));
}

std::pair<size_t, size_t> SpyreAllocator::getMemoryInfo(c10::DeviceIndex device) {
  uint64_t free = 0;
  uint64_t total = 0;
  check(cubeyard_memory_info(allocator_of(device), &free, &total));
  return {free, total};
}

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &SpyreAllocator::instance())

} // namespace cubeyard
