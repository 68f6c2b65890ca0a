/*
 * An allocator over a device of one's own: three functions, a block, and the report of a request that fails.
 *
 *     cargo build --profile dist -p cubeyard-clib
 *     cc -std=c99 crates/capi/examples/own_device.c -Icrates/capi/include -Ltarget/dist -lcubeyard -o own_device
 *     LD_LIBRARY_PATH=target/dist ./own_device
 */
#include <stdio.h>

#include "cubeyard.h"

static uint64_t used, regions; /* a device of 64 MiB */

static int acquire(void *user, uint64_t size, uint64_t *region_id) {
    (void)user;
    if (size > (64 << 20) - used) return 0;
    used += size;
    *region_id = regions++ << 32;
    return 1;
}
static void release(void *user, uint64_t region_id, uint64_t size) { (void)user, (void)region_id, used -= size; }
static void info(void *user, uint64_t *free_bytes, uint64_t *total_bytes) {
    (void)user, *free_bytes = (64 << 20) - used, *total_bytes = 64 << 20;
}

int main(void) {
    cubeyard_device device = {.struct_size = sizeof device, .mode = CUBEYARD_MODE_PF, .acquire = acquire, .release = release, .info = info};
    cubeyard_allocator *allocator;
    cubeyard_block block;
    cubeyard_request request = {.size = 12000000};
    if (cubeyard_create_device(NULL, &device, &allocator) != CUBEYARD_OK) return 1;
    if (cubeyard_allocate(allocator, &request, &block, NULL) != CUBEYARD_OK) puts(cubeyard_last_error());
    return cubeyard_destroy(allocator) != CUBEYARD_OK;
}
