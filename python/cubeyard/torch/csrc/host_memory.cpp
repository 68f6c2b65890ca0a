// Page-locked host memory, for copies that do not block.
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <map>
#include <mutex>
#include <set>

#include "shim.h"

namespace cubeyard {
namespace {

using Clock = std::chrono::steady_clock;

// Blocks have sizes of powers of two from a page on, so that freed ones suit many requests.
constexpr size_t kPage = 4096;
// Most bytes that are kept for later requests.
constexpr size_t kCached = size_t{256} << 20;

struct HostMemoryBlock {
  void* pointer;
  size_t bytes;
  // Streams that use it: device and number.
  std::set<std::pair<c10::DeviceIndex, uint32_t>> streams;
  // Time from which it can be used again, once it is free.
  uint64_t ready = 0;
};

int64_t microseconds_since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
}

class PinnedMemory final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) {
      return {nullptr, nullptr, &free, c10::DeviceType::CPU};
    }
    const auto lock = locked();
    HostMemoryBlock* block = lend(std::max(std::bit_ceil(bytes), kPage));
    stats_.active_requests.increase(1);
    stats_.active_bytes.increase(block->bytes);
    return {block->pointer, block, &free, c10::DeviceType::CPU};
  }

  // Not in a child of a fork, in which the lock may be held by a thread that is gone: nothing is page-locked there.
  bool owns(const void* pointer) {
    if (forked()) {
      return false;
    }
    const std::lock_guard lock(mutex_);
    return find(pointer) != nullptr;
  }

  // False for memory that is not from here.
  bool record_event(void* pointer, void* /*context*/, c10::Stream stream) override {
    const auto lock = locked();
    HostMemoryBlock* block = find(pointer);
    if (block == nullptr) {
      return false;
    }
    block->streams.emplace(stream.device_index(), static_cast<uint32_t>(stream.id()));
    return true;
  }

  void empty_cache() override {
    const auto lock = locked();
    std::erase_if(free_, [this](const auto& entry) {
      if (cubeyard_torch_passed(entry.second->ready) == 0) {
        return false;
      }
      unmap(entry.second);
      return true;
    });
  }

  at::HostStats get_stats() override {
    const auto lock = locked();
    return stats_;
  }

  void reset_accumulated_stats() override {
    const auto lock = locked();
    for (auto* stat : all_stats()) {
      stat->reset_accumulated();
    }
    stats_.host_alloc_time.reset_accumulated();
    stats_.host_free_time.reset_accumulated();
    stats_.num_host_alloc = 0;
    stats_.num_host_free = 0;
  }

  void reset_peak_stats() override {
    const auto lock = locked();
    for (auto* stat : all_stats()) {
      stat->reset_peak();
    }
    stats_.host_alloc_time.reset_peak();
    stats_.host_free_time.reset_peak();
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr; // The context is the block, not the pointer.
  }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  std::unique_lock<std::mutex> locked() {
    note_use();
    check_not_forked();
    return std::unique_lock(mutex_);
  }

  std::array<c10::CachingAllocator::Stat*, 4> all_stats() {
    return {&stats_.active_requests, &stats_.active_bytes, &stats_.allocations, &stats_.allocated_bytes};
  }

  // The block that a pointer points into, whether it is lent or free.
  HostMemoryBlock* find(const void* pointer) {
    const auto after = blocks_.upper_bound(static_cast<const char*>(pointer));
    if (after == blocks_.begin()) {
      return nullptr;
    }
    const auto& [start, block] = *std::prev(after);
    return static_cast<const char*>(pointer) < start + block->bytes ? block : nullptr;
  }

  HostMemoryBlock* lend(size_t bytes) {
    const auto [first, last] = free_.equal_range(bytes);
    for (auto entry = first; entry != last; entry++) {
      if (cubeyard_torch_passed(entry->second->ready) != 0) {
        HostMemoryBlock* block = entry->second;
        free_.erase(entry);
        cached_ -= bytes;
        return block;
      }
    }
    return map(bytes);
  }

  HostMemoryBlock* map(size_t bytes) {
    const auto start = Clock::now();
    void* pointer = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK_WITH(OutOfMemoryError, pointer != MAP_FAILED, "Cannot map ", bytes, " bytes of page-locked host memory");
    // Where the limit on locked memory is reached, the memory is used unlocked: that costs nothing here, since
    // copies are made by the CPU.
    (void)mlock(pointer, bytes);
    auto* block = new HostMemoryBlock{pointer, bytes, {}};
    blocks_[static_cast<const char*>(pointer)] = block;
    stats_.allocations.increase(1);
    stats_.allocated_bytes.increase(bytes);
    stats_.bucket_allocation[std::bit_width(bytes) - 1]++;
    stats_.num_host_alloc++;
    stats_.host_alloc_time.increase(microseconds_since(start));
    return block;
  }

  // The caller takes the block out of `free_`.
  void unmap(HostMemoryBlock* block) {
    const auto start = Clock::now();
    cached_ -= block->bytes;
    blocks_.erase(static_cast<const char*>(block->pointer));
    munmap(block->pointer, block->bytes);
    stats_.allocations.decrease(1);
    stats_.allocated_bytes.decrease(block->bytes);
    stats_.num_host_free++;
    stats_.host_free_time.increase(microseconds_since(start));
    delete block;
  }

  void give_back(HostMemoryBlock* block) {
    const std::lock_guard lock(mutex_);
    stats_.active_requests.decrease(1);
    stats_.active_bytes.decrease(block->bytes);
    block->ready = 0;
    for (const auto& [device, stream] : block->streams) {
      block->ready = std::max(block->ready, cubeyard_torch_record(device, stream));
    }
    block->streams.clear();
    free_.emplace(block->bytes, block);
    cached_ += block->bytes;
    shrink();
  }

  // Unmaps blocks that no stream uses, the largest first, until the cache is within its bound.
  void shrink() {
    for (auto entry = free_.end(); entry != free_.begin() && cached_ > kCached;) {
      entry--;
      if (cubeyard_torch_passed(entry->second->ready) != 0) {
        unmap(entry->second);
        entry = free_.erase(entry);
      }
    }
  }

  static void free(void* context);

  std::mutex mutex_;
  std::map<const char*, HostMemoryBlock*> blocks_;    // all
  std::multimap<size_t, HostMemoryBlock*> free_;      // those that are not lent, by size
  size_t cached_ = 0;                                 // their bytes
  at::HostStats stats_;
};

// It is never destroyed: tensors that outlive main are freed through it.
PinnedMemory& instance() {
  static auto* const memory = new PinnedMemory;
  return *memory;
}

// A child of a fork leaves the memory to the end of the process.
void PinnedMemory::free(void* context) {
  if (!forked()) {
    instance().give_back(static_cast<HostMemoryBlock*>(context));
  }
}

} // namespace

at::HostAllocator& host_allocator() {
  return instance();
}

bool is_host_memory(const void* pointer) {
  return instance().owns(pointer);
}

REGISTER_HOST_ALLOCATOR(c10::DeviceType::PrivateUse1, &host_allocator())

} // namespace cubeyard
