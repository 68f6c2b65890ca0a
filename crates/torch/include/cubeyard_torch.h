/*
 * Devices as PyTorch sees them: the functions that its shim needs in addition to cubeyard.h. A device is a SIP of the
 * machine.
 *
 * Device memory is memory of this process, mapped twice. Pointers of tensors lie in the first mapping, which has no
 * access rights, so that a stray access faults. The same byte can be read and written through the second mapping, at a
 * fixed distance.
 *
 * Time is simulated, in picoseconds. The host has a clock, and each stream has a time up to which it is busy. The CPU
 * computes operators at once; their simulated time keeps their stream busy, as other simulated work does. An event is
 * the time at which its stream will have passed it.
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

/* Returns the pool and the tag that this thread's allocations on a device go to; 0 for none. */
cubeyard_status cubeyard_torch_labels(uint32_t device, uint32_t *pool, uint32_t *tag);

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

/* ---- Operators and copies ---------------------------------------------------------------------- */

/* Returns nonzero if operators and copies take time. */
int cubeyard_torch_is_timed(void);

/* Cost of an operator. */
typedef struct cubeyard_torch_cost {
    uint64_t picoseconds; /* on all PEs of a SIP, without the host's launch */
    uint32_t id;          /* number under which operators of this cost are counted */
    uint32_t is_free;     /* nonzero for an operator that takes no time, such as a view */
} cubeyard_torch_cost;

/* Returns the cost of an operator from its name with overload, and words that describe its arguments and results
 * (python/cubeyard/torch/_costs.py reads them). It may run a simulation: callers remember the cost. */
cubeyard_status cubeyard_torch_get_cost(
    const char *name, const uint64_t *words, size_t count, cubeyard_torch_cost *cost);

/* Adds an operator to a stream. It takes all PEs of the device's SIP. */
cubeyard_status cubeyard_torch_operator(uint32_t device, uint32_t stream, cubeyard_torch_cost cost);

/* End of a copy: a stream of a device, or the host. */
typedef struct cubeyard_torch_place {
    int64_t device; /* negative for the host */
    uint32_t stream;
} cubeyard_torch_place;

/* Adds a copy of `bytes` over the PCIe links of the devices at its ends. */
cubeyard_status cubeyard_torch_copy(cubeyard_torch_place from, cubeyard_torch_place to, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
