/*
 * Devices as PyTorch has them: what its shim needs beside cubeyard.h. One device is a SIP of the machine.
 *
 * Device memory is memory of this process, mapped at two places. Pointers of tensors lie in the first, which
 * nobody may touch, so that a stray access faults. The same byte can be read and written at the second, a fixed
 * distance away.
 *
 * Time is simulated, in picoseconds. The host has a clock, and each stream a time up to which it has work. Work that
 * PyTorch does on the CPU takes none; work that is simulated (cubeyard_torch_work) keeps its stream busy. An event is
 * the time at which its stream will have passed it.
 *
 * This is no interface for others: it changes with every version, and the shim is compiled for one.
 */
#ifndef CUBEYARD_TORCH_H
#define CUBEYARD_TORCH_H

#include "cubeyard.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Devices ---------------------------------------------------------------------------------- */

/* Number of devices. CUBEYARD_ERROR_CONFIG if the environment asks for what cannot be. */
cubeyard_status cubeyard_torch_device_count(uint32_t *count);

/* The allocator of a device, which is made at the first call and never destroyed. */
cubeyard_status cubeyard_torch_allocator(uint32_t device, cubeyard_allocator **allocator);

/* Where the memory of all devices is. */
typedef struct cubeyard_torch_space {
    uint64_t base;     /* of the pointers of device 0; those of device d begin at base + d * span */
    uint64_t span;     /* of a device */
    uint64_t distance; /* from a pointer to the same byte for the host */
    uint64_t devices;
} cubeyard_torch_space;

cubeyard_status cubeyard_torch_get_space(cubeyard_torch_space *space);

/* The pointer of an address of a block on a device whose allocator was made. */
uint64_t cubeyard_torch_pointer(uint32_t device, cubeyard_address address);

/* Number of the place in the program that allocates, for cubeyard_request.site; 0 where it is not known or no history
 * is recorded. */
uint32_t cubeyard_torch_site(void);

/* ---- Streams ---------------------------------------------------------------------------------- */

/* Makes a stream; 0 is the default stream of every device. */
cubeyard_status cubeyard_torch_stream_new(uint32_t device, int32_t priority, uint32_t *stream);

/* Time at which the stream will have done all its work up to now. */
uint64_t cubeyard_torch_record(uint32_t device, uint32_t stream);

/* Lets the work that follows on a stream begin at `time` at the earliest. */
void cubeyard_torch_stream_wait(uint32_t device, uint32_t stream, uint64_t time);

/* Adds work of so many picoseconds to a stream of a device whose allocator was made; returns when that ends. */
uint64_t cubeyard_torch_work(uint32_t device, uint32_t stream, uint64_t picoseconds);

/* Not 0 if the host's clock has reached `time`. */
int cubeyard_torch_passed(uint64_t time);

/* Sets the host's clock to `time`, unless it is later already. */
void cubeyard_torch_wait(uint64_t time);

/* Time at which all streams of a device will have done their work. */
uint64_t cubeyard_torch_idle(uint32_t device);

#ifdef __cplusplus
}
#endif

#endif
