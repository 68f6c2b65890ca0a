/*
 * A backend with Cubeyard inside: a small inference loop on a virtual function that runs out of
 * memory, makes room, and leaves a snapshot behind.
 *
 *     cargo build --release -p cubeyard-clib
 *     cc -std=c99 crates/capi/examples/embed.c -Icrates/capi/include -Ltarget/release -lcubeyard -o embed
 *     LD_LIBRARY_PATH=target/release ./embed snapshot.pickle
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cubeyard.h"

#define MIB (UINT64_C(1) << 20)

/* Ends the program with the library's own words if a call has failed. */
static void check(cubeyard_status status, const char *what) {
    if (status != CUBEYARD_OK) {
        fprintf(stderr, "%s: %s: %s\n", what, cubeyard_status_name(status), cubeyard_last_error());
        exit(1);
    }
}

/* A cache of blocks that can be done without: what a pressure callback is for. */
typedef struct cache {
    cubeyard_allocator *allocator;
    cubeyard_block blocks[16];
    int count;
} cache;

static void drop_cache(void *user, const cubeyard_out_of_memory *report) {
    cache *self = user;
    printf("pressure: %" PRIu64 " MiB wanted, the longest free range is %" PRIu64
           " MiB; dropping %d cached blocks\n",
           report->requested / MIB, report->largest / MIB, self->count);
    while (self->count > 0)
        check(cubeyard_free(self->allocator, self->blocks[--self->count]), "free");
}

static cubeyard_block allocate(cubeyard_allocator *allocator, uint64_t size, uint32_t kind) {
    cubeyard_request request = {0};
    cubeyard_block block;
    request.size = size;
    request.kind = kind;
    check(cubeyard_allocate(allocator, &request, &block, NULL), "allocate");
    return block;
}

static void show(cubeyard_allocator *allocator, const char *name, cubeyard_block block) {
    cubeyard_block_info info;
    check(cubeyard_resolve(allocator, block, &info), "resolve");
    printf("%-8s region %" PRIu64 " + 0x%08" PRIx64 ", %" PRIu64 " bytes for %" PRIu64 "\n", name,
           info.address.region_id, info.address.offset, info.size, info.requested);
}

static int64_t stat(cubeyard_allocator *allocator, const char *key) {
    int64_t value;
    check(cubeyard_stat(allocator, key, &value), key);
    return value;
}

int main(int argc, char **argv) {
    if (cubeyard_abi_version() >> 16 != CUBEYARD_VERSION_MAJOR) {
        fprintf(stderr, "the library is another version than the header\n");
        return 1;
    }

    /* What the environment says, then what this program needs. */
    cubeyard_config *config;
    check(cubeyard_config_from_env(&config), "environment");
    check(cubeyard_config_set(config, "fallback_sizes", "[64MiB;32MiB]"), "fallback_sizes");
    check(cubeyard_config_set(config, "own_regions", "[program]"), "own_regions");
    check(cubeyard_config_set(config, "history", "1000"), "history");

    /* 128 MiB on a virtual function with eight entries in the firmware's table. */
    cubeyard_card card = {CUBEYARD_MODE_VF, 8, 128 * MIB};
    cubeyard_allocator *allocator;
    check(cubeyard_create_card(config, &card, &allocator), "create");
    cubeyard_config_free(config);

    cache kept = {0};
    kept.allocator = allocator;
    check(cubeyard_on_pressure(allocator, drop_cache, &kept), "on_pressure");

    /* Weights and a program. */
    cubeyard_block weights = allocate(allocator, 40 * MIB + 5, CUBEYARD_TENSOR);
    cubeyard_block program = allocate(allocator, 300000, CUBEYARD_PROGRAM);
    show(allocator, "weights", weights);
    show(allocator, "program", program);
    for (int i = 0; i < 4; i++)
        kept.blocks[kept.count++] = allocate(allocator, 5 * MIB, CUBEYARD_TENSOR);

    /* A launch: what it uses is pinned, so that it may be freed at any time. */
    uint64_t pin;
    cubeyard_block_info operand;
    check(cubeyard_pin(allocator, weights, &pin, &operand), "pin");
    printf("launch   segment %" PRIu32 ", flat address 0x%" PRIx64 "\n", operand.segment,
           operand.flat);
    check(cubeyard_unpin(allocator, pin), "unpin");

    /* More than is free: the callback makes room, and the request is served. */
    cubeyard_block batch = allocate(allocator, 20 * MIB, CUBEYARD_TENSOR);
    show(allocator, "batch", batch);

    /* Too much for any region: nothing helps, and the report says so. */
    cubeyard_request request = {0};
    cubeyard_block block;
    request.size = 100 * MIB;
    cubeyard_status status = cubeyard_allocate(allocator, &request, &block, NULL);
    printf("100 MiB: %s\n%s\n", cubeyard_status_name(status), cubeyard_last_error());

    printf("allocated %" PRId64 ", reserved %" PRId64 ", retries %" PRId64 ", out of memory %" PRId64
           "\n",
           stat(allocator, "allocated_bytes.all.current"), stat(allocator, "reserved_bytes.all.current"),
           stat(allocator, "num_alloc_retries"), stat(allocator, "num_ooms"));
    if (argc > 1)
        check(cubeyard_snapshot_file(allocator, 0, argv[1]), "snapshot");

    /* An allocator with blocks in it is not destroyed by mistake. */
    status = cubeyard_destroy(allocator);
    printf("destroy: %s: %s\n", cubeyard_status_name(status), cubeyard_last_error());
    check(cubeyard_free(allocator, weights), "free");
    check(cubeyard_free(allocator, program), "free");
    check(cubeyard_free(allocator, batch), "free");
    check(cubeyard_destroy(allocator), "destroy");
    printf("done\n");
    return 0;
}
