// CPU tensors over device memory, and the way back.
#include <cstring>

#include "shim.h"

namespace cubeyard {
namespace {

void release_storage(void* original) {
  c10::intrusive_ptr<c10::StorageImpl>::reclaim(static_cast<c10::StorageImpl*>(original));
}

// A CPU storage over the memory of a device's, which it keeps alive. A kernel may resize it if it may resize the
// original; the new memory is the device's, by the Placement of the call.
c10::Storage host_storage(const c10::Storage& original, bool written) {
  c10::StorageImpl* impl = original.unsafeGetStorageImpl();
  // Asking for what may be written to ends the sharing of a copy-on-write storage.
  const void* pointer = written ? impl->mutable_data() : impl->data();
  void* host = pointer == nullptr ? nullptr : host_pointer(pointer);
  c10::raw::intrusive_ptr::incref(impl);
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(),
      impl->nbytes(),
      c10::DataPtr(host, impl, &release_storage, c10::DeviceType::CPU),
      &placing_allocator(),
      impl->resizable());
}

// A tensor over another storage with all else equal to `model`.
at::Tensor tensor_like(const at::Tensor& model, c10::Storage storage, c10::DispatchKey key) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), model.dtype());
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(model.sizes(), model.strides(), model.storage_offset());
  if (model.is_conj()) {
    impl->_set_conj(true);
  }
  if (model.is_neg()) {
    impl->_set_neg(true);
  }
  if (model.unsafeGetTensorImpl()->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  return tensor;
}

// The memory of a CPU storage for a device: moved where it may be and is the device's, else copied.
c10::DataPtr device_memory(c10::StorageImpl& host, c10::DeviceIndex device, bool may_move) {
  if (may_move && is_device_memory_on_host(host.data_ptr())) {
    return to_device(std::move(host._mutable_data_ptr_no_checks()));
  }
  const size_t bytes = host.data() == nullptr ? 0 : host.nbytes();
  c10::DataPtr copy = SpyreAllocator::instance().allocate(bytes, device);
  if (bytes > 0) {
    std::memcpy(host_pointer(copy.get()), host.data(), bytes);
  }
  return copy;
}

bool same_place(const at::Tensor& one, const at::Tensor& other) {
  return one.storage_offset() == other.storage_offset() && one.sizes() == other.sizes() &&
      one.strides() == other.strides();
}

} // namespace

void Aliases::add(AliasedStorage storage) {
  storage_places_.push_back(storage.original.unsafeGetStorageImpl());
  storage_alias_places_.push_back(storage.alias.unsafeGetStorageImpl());
  storages_.push_back(std::move(storage));
}

const c10::Storage& Aliases::alias_of(const c10::Storage& original, bool written) {
  const size_t place = storage_places_.find(original.unsafeGetStorageImpl());
  if (place != Places::kNone) {
    return storages_[place].alias;
  }
  c10::Storage alias = host_storage(original, written);
  const void* data = alias.data();
  add({original, std::move(alias), data, original.nbytes()});
  return storages_.back().alias;
}

c10::Storage Aliases::of(const c10::Storage& original, bool written) {
  return alias_of(original, written);
}

at::Tensor Aliases::of(const at::Tensor& original, bool written) {
  const size_t place = tensor_places_.find(original.unsafeGetTensorImpl());
  if (place != Places::kNone) {
    return tensors_[place].alias;
  }
  const c10::Storage& storage = alias_of(original.storage(), written);
  auto alias = tensor_like(original, storage, c10::DispatchKey::CPU);
  tensor_places_.push_back(original.unsafeGetTensorImpl());
  tensor_alias_places_.push_back(alias.unsafeGetTensorImpl());
  tensors_.push_back({original, alias, storage.unsafeGetStorageImpl()});
  return alias;
}

void Aliases::follow() {
  for (auto& [original, alias, data, bytes] : storages_) {
    c10::StorageImpl& host = *alias.unsafeGetStorageImpl();
    if (host.data() != data || host.nbytes() != bytes) {
      original.unsafeGetStorageImpl()->set_data_ptr_noswap(device_memory(host, original.device().index(), true));
      original.set_nbytes(host.nbytes());
    }
  }
  for (auto& [original, alias, storage] : tensors_) {
    c10::TensorImpl* impl = original.unsafeGetTensorImpl();
    if (alias.storage().unsafeGetStorageImpl() != storage) {
      impl->set_storage_keep_dtype(device_storage(alias, original.device().index(), alias.storage().use_count()));
    }
    if (!same_place(alias, original)) {
      impl->set_sizes_and_strides(alias.sizes(), alias.strides(), alias.storage_offset());
    }
    if (alias.is_conj() != original.is_conj()) {
      impl->_set_conj(alias.is_conj());
    }
    if (alias.is_neg() != original.is_neg()) {
      impl->_set_neg(alias.is_neg());
    }
  }
}

c10::Storage Aliases::device_storage(const at::Tensor& result, c10::DeviceIndex device, size_t holders) {
  const c10::Storage& storage = result.storage();
  c10::StorageImpl& host = *storage.unsafeGetStorageImpl();
  const size_t place = storage_alias_places_.find(&host);
  if (place != Places::kNone) {
    return storages_[place].original;
  }
  if (host.device_type() == kDevice) {
    return storage; // Another result has the same storage and was adopted before.
  }
  // If nobody but results of this call knows the storage, it becomes the device's as it is.
  const bool known_elsewhere = storage.use_count() > holders;
  c10::DataPtr memory = device_memory(host, device, !known_elsewhere);
  if (!known_elsewhere) {
    host.set_data_ptr_noswap(std::move(memory));
    host.set_allocator(&SpyreAllocator::instance());
    return storage;
  }
  c10::Storage copy = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), host.nbytes(), std::move(memory), &SpyreAllocator::instance(), true);
  add({copy, storage, host.data(), host.nbytes()});
  return copy;
}

at::Tensor Aliases::adopt(const at::Tensor& result, c10::DeviceIndex device, size_t holders) {
  const size_t place = tensor_alias_places_.find(result.unsafeGetTensorImpl());
  if (place != Places::kNone) {
    return tensors_[place].original;
  }
  return tensor_like(result, device_storage(result, device, holders), c10::DispatchKey::PrivateUse1);
}

} // namespace cubeyard
