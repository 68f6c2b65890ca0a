// Simulated time of operators and copies.
#include "timing.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include "description.h"
#include "shim.h"

namespace cubeyard {
namespace {

// ---- Costs --------------------------------------------------------------------------------------

uint64_t hash_of(const Words& words) {
  uint64_t hash = 0x9e3779b97f4a7c15ULL ^ words.size();
  for (const uint64_t word : words) {
    const auto product = static_cast<unsigned __int128>(hash ^ word) * 0xd6e8feb86659fd93ULL;
    hash = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  return hash;
}

// Costs of operators by their words.
class Memo {
 public:
  cubeyard_torch_cost find(const OperatorInfo& info, const Words& words) {
    const uint64_t hash = hash_of(words);
    if (const auto known = look_up(hash, words)) {
      return *known;
    }
    // The lock is not held, since the answer may take long, and needs the interpreter.
    cubeyard_torch_cost cost{};
    check(cubeyard_torch_get_cost(info.name.c_str(), words.data() + 1, words.size() - 1, &cost));
    const std::lock_guard lock(mutex_);
    if (known_.size() >= kMost) {
      known_.clear();
    }
    known_[hash] = Entry{std::vector<uint64_t>(words.begin(), words.end()), cost};
    return cost;
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    known_.clear();
  }

 private:
  static constexpr size_t kMost = 1 << 16;

  struct Entry {
    std::vector<uint64_t> words;
    cubeyard_torch_cost cost;
  };

  std::optional<cubeyard_torch_cost> look_up(uint64_t hash, const Words& words) {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(hash);
    if (found == known_.end() || !std::equal(words.begin(), words.end(), found->second.words.begin(), found->second.words.end())) {
      return std::nullopt;
    }
    return found->second.cost;
  }

  std::mutex mutex_;
  ska::flat_hash_map<uint64_t, Entry> known_;
};

Memo& memo() {
  static auto* const made = new Memo;
  return *made;
}

// ---- Calls --------------------------------------------------------------------------------------

// Timed calls of this thread that have begun, and whether a copy took time within them.
thread_local int depth = 0;
thread_local bool has_copied = false;

std::atomic<bool> ran_untimed{false};

bool is_timed() {
  return cubeyard_torch_is_timed() != 0;
}

cubeyard_torch_place place_of(const at::Tensor& tensor) {
  if (tensor.device().type() != kDevice) {
    return {-1, 0};
  }
  const c10::DeviceIndex device = tensor.device().index();
  allocator_of(device); // A device that is not made has no streams.
  return {device, current_stream(device)};
}

} // namespace

TimedCall::TimedCall(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (!is_timed()) {
    ran_untimed.store(true, std::memory_order_relaxed);
    return;
  }
  entered_ = true;
  if (depth++ > 0) {
    return;
  }
  has_copied = false;
  const OperatorInfo& info = info_of(op);
  if (info.is_free) {
    return;
  }
  info_ = &info;
  const size_t first = stack.size() - info.roles.size();
  words_.push_back(info.number);
  words_.push_back(info.roles.size());
  Description description{words_, device_};
  for (size_t place = 0; place < info.roles.size(); place++) {
    description.add(stack[first + place], info.roles[place]);
  }
  waits_ = info.makes_host_wait || (info.waits_for_masks && description.has_mask);
}

TimedCall::~TimedCall() {
  depth -= entered_;
}

void TimedCall::end(const torch::jit::Stack& stack) {
  if (info_ == nullptr || has_copied) {
    return;
  }
  Description description{words_, device_};
  for (size_t place = stack.size() - info_->returns; place < stack.size(); place++) {
    description.add(stack[place], Role::kPlain);
  }
  if (device_ < 0) {
    return;
  }
  const auto device = static_cast<c10::DeviceIndex>(device_);
  const cubeyard_torch_cost cost = memo().find(*info_, words_);
  if (cost.is_free == 0) {
    allocator_of(device); // A device that is not made has no streams.
    check(cubeyard_torch_operator(device, current_stream(device), cost));
  }
  if (waits_) {
    wait_for_current_stream(device);
  }
}

void take_time_of_copy(const at::Tensor& from, const at::Tensor& to) {
  if (!is_timed() || from.device() == to.device()) {
    return;
  }
  has_copied = true;
  const at::Tensor& on_device = from.device().type() == kDevice ? from : to;
  check(cubeyard_torch_copy(place_of(from), place_of(to), on_device.numel() * on_device.itemsize()));
}

void take_time_of_item(const at::Tensor& tensor) {
  if (is_timed() && depth == 0) {
    check(cubeyard_torch_copy(place_of(tensor), {-1, 0}, tensor.itemsize()));
  }
}

void forget_costs() {
  memo().clear();
}

void warn_if_untimed() {
  if (!is_timed() && ran_untimed.load(std::memory_order_relaxed)) {
    TORCH_WARN_ONCE(
        "Operators take no simulated time, because CUBEYARD_TIME is off. Set the variable CUBEYARD_TIME=on before the "
        "program starts to measure them");
  }
}

} // namespace cubeyard
