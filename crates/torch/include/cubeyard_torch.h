/*
 * Devices as PyTorch sees them: the functions that its shim needs in addition to cubeyard.h. A device is a SIP of the
 * machine.
 *
 * Device memory is memory of this process, mapped twice. Pointers of tensors lie in the first mapping, which has no
 * access rights, so that a stray access faults. The same byte can be read and written through the second mapping, at a
 * fixed distance.
 *
 * Time is simulated, in picoseconds. The host has a clock, and each stream has a time up to which it is busy. Operators
 * that PyTorch computes on the CPU take no simulated time; simulated work (cubeyard_torch_work) keeps its stream busy.
 * An event is the time at which its stream will have passed it.
 *
 * This is not a public interface: it changes with every version, and the shim is compiled for one version.
 */
#ifndef CUBEYARD_TORCH_H
#define CUBEYARD_TORCH_H

#include "cubeyard.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Devices ---------------------------------------------------------------------------------- */

/* Returns the number of devices. CUBEYARD_ERROR_CONFIG if the environment is invalid. */
cubeyard_status cubeyard_torch_device_count(uint32_t *count);

/* Returns the allocator of a device, which is created on the first call and never destroyed. */
cubeyard_status cubeyard_torch_allocator(uint32_t device, cubeyard_allocator **allocator);

/* Addresses of the memory of all devices. */
typedef struct cubeyard_torch_space {
    uint64_t base;     /* first pointer of device 0; device d begins at base + d * span */
    uint64_t span;     /* size of a device's address range */
    uint64_t distance; /* from a pointer to the same byte for the host */
    uint64_t devices;
} cubeyard_torch_space;

cubeyard_status cubeyard_torch_get_space(cubeyard_torch_space *space);

/* Returns the pointer to an address of a block, on a device whose allocator was created. */
uint64_t cubeyard_torch_pointer(uint32_t device, cubeyard_address address);

/* Returns the number of the allocating call site, for cubeyard_request.site; 0 if it is unknown or no history is
 * recorded. */
uint32_t cubeyard_torch_site(void);

/* ---- Streams ---------------------------------------------------------------------------------- */

/* Creates a stream; 0 is the default stream of every device. */
cubeyard_status cubeyard_torch_stream_new(uint32_t device, int32_t priority, uint32_t *stream);

/* Returns the time at which the stream will have finished all its work up to now. */
uint64_t cubeyard_torch_record(uint32_t device, uint32_t stream);

/* Delays later work on a stream until at least `time`. */
void cubeyard_torch_stream_wait(uint32_t device, uint32_t stream, uint64_t time);

/* Adds work of `picoseconds` to a stream of a device whose allocator was created; returns its end. */
uint64_t cubeyard_torch_work(uint32_t device, uint32_t stream, uint64_t picoseconds);

/* Returns nonzero if the host's clock has reached `time`. */
int cubeyard_torch_passed(uint64_t time);

/* Advances the host's clock to `time`, unless it is already later. */
void cubeyard_torch_wait(uint64_t time);

/* Returns the time at which all streams of a device will have finished their work. */
uint64_t cubeyard_torch_idle(uint32_t device);

#ifdef __cplusplus
}
#endif

#endif
