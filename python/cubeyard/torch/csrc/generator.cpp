// Random numbers of a device: a generator of the device's that draws from a CPU generator of its own, which CPU
// kernels are given in its place.
//
// PyTorch takes the state of an accelerator's generator for a seed and an offset, 8 bytes each: a DTensor sets the
// offset, so that its shards have numbers of their own. Here an offset of 0 stands for the CPU's numbers of that
// seed, and every other for a sequence of its own.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>

#include <cstring>

#include "shim.h"

namespace cubeyard {
namespace {

// The begin of a state. The state of the CPU generator follows it.
struct StateHeader {
  uint64_t seed;
  uint64_t offset; // which others may change
  uint64_t drawn_at; // offset to which the state of the CPU generator belongs
};

// Bytes of a state that is a seed and an offset alone.
constexpr size_t kShort = 2 * sizeof(uint64_t);

// A number that depends on every bit of another (the finaliser of SplitMix64).
uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// An engine whose whole state comes from a seed and an offset. The CPU's own seeds have 32 bits, too few for the
// shards of many tensors.
at::mt19937 engine_at(uint64_t seed, uint64_t offset) {
  at::mt19937_data_pod data{};
  data.seed_ = seed;
  data.left_ = 1;
  data.seeded_ = true;
  uint64_t position = scramble(seed + scramble(offset));
  for (uint32_t& word : data.state_) {
    word = static_cast<uint32_t>(scramble(position += 0x9e3779b97f4a7c15) >> 32);
  }
  at::mt19937 engine;
  engine.set_data(data);
  return engine;
}

class SpyreGenerator final : public c10::GeneratorImpl {
 public:
  SpyreGenerator(c10::DeviceIndex device, at::Generator host)
      : GeneratorImpl(c10::Device(kDevice, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        host_(std::move(host)),
        seed_(host_.current_seed()) {}

  const at::Generator& host() const {
    return host_;
  }

  void set_current_seed(uint64_t seed) override {
    start(seed, 0);
  }
  void set_offset(uint64_t offset) override {
    start(seed_, offset);
  }
  uint64_t get_offset() const override {
    return offset_;
  }
  uint64_t current_seed() const override {
    return seed_;
  }
  uint64_t seed() override {
    offset_ = 0;
    return seed_ = host_.unsafeGetGeneratorImpl()->seed();
  }

  // Takes a state of a device's generator, of a CPU generator, or a seed and an offset.
  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    const auto* bytes = static_cast<const uint8_t*>(state.data());
    const size_t size = state.numel();
    const size_t host_size = host_.get_state().numel();
    StateHeader header{};
    if (size == kShort || size == sizeof(header) + host_size) {
      std::memcpy(&header, bytes, std::min(size, sizeof(header)));
      start(header.seed, header.offset);
      if (size > kShort && header.offset == header.drawn_at) {
        set_host_state(bytes + sizeof(header), host_size);
      }
    } else {
      set_host_state(bytes, size);
      seed_ = host_.current_seed();
      offset_ = 0;
    }
  }

  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const at::Tensor host = host_.get_state();
    const StateHeader header{seed_, offset_, offset_};
    at::Tensor state = bytes_of(sizeof(header) + host.numel());
    auto* bytes = state.mutable_data_ptr<uint8_t>();
    std::memcpy(bytes, &header, sizeof(header));
    std::memcpy(bytes + sizeof(header), host.const_data_ptr<uint8_t>(), host.numel());
    return state.getIntrusivePtr();
  }

 private:
  SpyreGenerator* clone_impl() const override {
    auto* copy = new SpyreGenerator(device().index(), host_.clone());
    copy->seed_ = seed_;
    copy->offset_ = offset_;
    return copy;
  }

  // Begins the numbers of a seed and an offset.
  void start(uint64_t seed, uint64_t offset) {
    seed_ = seed;
    offset_ = offset;
    host_.set_current_seed(seed);
    if (offset != 0) {
      at::check_generator<at::CPUGeneratorImpl>(host_)->set_engine(engine_at(seed, offset));
    }
  }

  void set_host_state(const uint8_t* bytes, size_t size) {
    at::Tensor copy = bytes_of(size);
    std::memcpy(copy.mutable_data_ptr<uint8_t>(), bytes, size);
    host_.set_state(copy);
  }

  static at::Tensor bytes_of(size_t size) {
    return at::detail::empty_cpu({static_cast<int64_t>(size)}, at::kByte);
  }

  at::Generator host_;
  uint64_t seed_;
  uint64_t offset_ = 0;
};

} // namespace

const at::Generator& default_generator(c10::DeviceIndex device) {
  static auto* const generators = [] {
    auto* made = new std::vector<at::Generator>;
    for (c10::DeviceIndex index = 0; index < device_count(); index++) {
      made->push_back(new_generator(index));
    }
    return made;
  }();
  const c10::DeviceIndex index = index_of(c10::Device(kDevice, device));
  check_device(index);
  return (*generators)[index];
}

at::Generator new_generator(c10::DeviceIndex device) {
  const c10::DeviceIndex index = index_of(c10::Device(kDevice, device));
  check_device(index);
  return at::make_generator<SpyreGenerator>(index, at::detail::createCPUGenerator());
}

const at::Generator& host_generator(const at::Generator& generator) {
  const auto* ours = dynamic_cast<const SpyreGenerator*>(generator.unsafeGetGeneratorImpl());
  return ours == nullptr ? generator : ours->host();
}

} // namespace cubeyard
