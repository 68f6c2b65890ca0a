// What PyTorch asks a device type for beside its guard.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "shim.h"

namespace cubeyard {
namespace {

using c10::DeviceIndex;

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override {
    return true;
  }

  bool isAvailable() const override {
    return device_count() > 0;
  }

  bool hasPrimaryContext(DeviceIndex device) const override {
    return has_allocator(device);
  }

  // Raises if there is no device, with the reason.
  void init() const override {
    check_device(0);
  }

  DeviceIndex deviceCount() const override {
    return device_count();
  }

  DeviceIndex getCurrentDevice() const override {
    return current_device();
  }

  void setCurrentDevice(DeviceIndex device) const override {
    guard().setDevice(c10::Device(kDevice, device));
  }

  DeviceIndex exchangeDevice(DeviceIndex device) const override {
    return guard().exchangeDevice(c10::Device(kDevice, device)).index();
  }

  // A negative index stands for no change.
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override {
    return device < 0 ? current_device() : exchangeDevice(device);
  }

  c10::Device getDeviceFromPtr(void* pointer) const override {
    const DeviceIndex device = device_of(pointer);
    TORCH_CHECK(device >= 0, "Pointer ", pointer, " is in the memory of no device");
    return {kDevice, device};
  }

  bool isPinnedPtr(const void* pointer) const override {
    return is_host_memory(pointer);
  }

  c10::Allocator* getPinnedMemoryAllocator() const override {
    return &host_allocator();
  }

  const at::Generator& getDefaultGenerator(DeviceIndex device) const override {
    return default_generator(device);
  }

  at::Generator getNewGenerator(DeviceIndex device) const override {
    return new_generator(device);
  }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), bytes);
  }

 private:
  static const c10::impl::DeviceGuardImplInterface& guard() {
    return *c10::impl::getDeviceGuardImpl(kDevice);
  }
};

const bool hooks_registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

} // namespace
} // namespace cubeyard
