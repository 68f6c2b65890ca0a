// Random numbers of a device: a generator of the device's that draws from a CPU generator of its own, which CPU
// kernels are given in its place.
#include <ATen/CPUGeneratorImpl.h>

#include "shim.h"

namespace cubeyard {
namespace {

class SpyreGenerator final : public c10::GeneratorImpl {
 public:
  SpyreGenerator(c10::DeviceIndex device, at::Generator host)
      : GeneratorImpl(c10::Device(kDevice, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        host_(std::move(host)) {}

  const at::Generator& host() const {
    return host_;
  }

  void set_current_seed(uint64_t seed) override {
    host_.set_current_seed(seed);
  }
  void set_offset(uint64_t offset) override {
    host_.set_offset(offset);
  }
  uint64_t get_offset() const override {
    return host_.get_offset();
  }
  uint64_t current_seed() const override {
    return host_.current_seed();
  }
  uint64_t seed() override {
    return host_.unsafeGetGeneratorImpl()->seed();
  }
  void set_state(const c10::TensorImpl& state) override {
    host_.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return host_.unsafeGetGeneratorImpl()->get_state();
  }

 private:
  SpyreGenerator* clone_impl() const override {
    return new SpyreGenerator(device().index(), host_.clone());
  }

  at::Generator host_;
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
