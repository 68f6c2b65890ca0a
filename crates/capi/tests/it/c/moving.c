/* Compaction in steps, blocks that grow in place, exports, and pools and tags that rest. */
#include "expect.h"

/* A device whose memory is counted, and whose handles are a region's id. */
typedef struct driver {
    uint64_t used;
    int exports;
} driver;

static int reserve(void *user, uint64_t size, uint64_t *id) {
    (void)user, (void)size;
    static uint64_t next = 0x100000000;
    *id = next;
    next += UINT64_C(1) << 40;
    return 1;
}
static void release(void *user, uint64_t id, uint64_t size) { (void)user, (void)id, (void)size; }
static void info(void *user, uint64_t *free_bytes, uint64_t *total_bytes) {
    *total_bytes = 64 * MIB;
    *free_bytes = 64 * MIB - ((driver *)user)->used;
}
static int commit(void *user, uint64_t id, uint64_t offset, uint64_t size) {
    driver *driver = user;
    (void)id, (void)offset;
    if (driver->used + size > 64 * MIB)
        return 0;
    driver->used += size;
    return 1;
}
static void decommit(void *user, uint64_t id, uint64_t offset, uint64_t size) {
    (void)id, (void)offset;
    ((driver *)user)->used -= size;
}
static int export_handle(void *user, uint64_t id, uint64_t offset, uint64_t size, uint8_t *handle,
                         size_t capacity, size_t *length, uint64_t *handle_offset) {
    EXPECT(size > 0 && capacity == CUBEYARD_EXPORT_MAX);
    ((driver *)user)->exports++;
    memcpy(handle, &id, sizeof id);
    *length = sizeof id;
    *handle_offset = offset;
    return 1;
}

static cubeyard_allocator *growing(driver *self, int exports) {
    cubeyard_device device = {.struct_size = sizeof device, .mode = CUBEYARD_MODE_PF, .granule = 2 * MIB,
                              .user = self, .acquire = reserve, .release = release, .info = info,
                              .reserve = reserve, .commit = commit, .decommit = decommit};
    cubeyard_config *config;
    cubeyard_allocator *allocator;
    if (exports)
        device.export_handle = export_handle;
    else /* a program that was compiled for 1.2 */
        device.struct_size = offsetof(cubeyard_device, export_handle);
    EXPECT_OK(cubeyard_config_new("growth:growable(1GiB)", &config));
    EXPECT_OK(cubeyard_create_device(config, &device, &allocator));
    cubeyard_config_free(config);
    return allocator;
}

static cubeyard_block_info resolve(cubeyard_allocator *allocator, cubeyard_block block) {
    cubeyard_block_info info;
    EXPECT_OK(cubeyard_resolve(allocator, block, &info));
    return info;
}

static void compaction_in_steps(void) {
    cubeyard_allocator *allocator = on_card("fallback_sizes:[64MiB]", CUBEYARD_MODE_PF, 0, 64 * MIB);
    cubeyard_block blocks[8];
    cubeyard_move moves[8];
    uint64_t plan;
    size_t count, steps = 0, moved = 0;
    for (int i = 0; i < 8; i++)
        blocks[i] = allocate(allocator, 3 * MIB);
    for (int i = 0; i < 4; i++)
        EXPECT_OK(cubeyard_free(allocator, blocks[i]));
    do {
        EXPECT_OK(cubeyard_compact_step(allocator, 8 * MIB, &plan, &count));
        EXPECT_OK(cubeyard_plan_moves(allocator, plan, moves, 8, NULL));
        uint64_t bytes = 0;
        for (size_t i = 0; i < count; i++)
            bytes += moves[i].size;
        EXPECT(bytes <= 8 * MIB);
        EXPECT_OK(cubeyard_plan_commit(allocator, plan, NULL));
        moved += count;
        steps += count > 0;
    } while (count > 0);
    EXPECT(steps == 2 && moved == 4);
    EXPECT(resolve(allocator, blocks[4]).address.offset < 12 * MIB);
    EXPECT_ERROR(ARGUMENT, cubeyard_compact_step(allocator, MIB, NULL, NULL), "`plan` is NULL");
    EXPECT_OK(cubeyard_abandon(allocator));
}

static void blocks_grow_in_place(void) {
    cubeyard_allocator *allocator = on_card("fallback_sizes:[64MiB]", CUBEYARD_MODE_PF, 0, 64 * MIB);
    cubeyard_block first = allocate(allocator, MIB), second;
    uint64_t pin;
    EXPECT_OK(cubeyard_resize(allocator, first, 3 * MIB));
    EXPECT(resolve(allocator, first).size == 3 * MIB && resolve(allocator, first).address.offset == 0);
    second = allocate(allocator, MIB);
    EXPECT_ERROR(NO_ROOM, cubeyard_resize(allocator, first, 4 * MIB), "another block");
    EXPECT_ERROR(ARGUMENT, cubeyard_resize(allocator, first, 0), "zero bytes");
    EXPECT_OK(cubeyard_pin(allocator, first, &pin, NULL));
    EXPECT_ERROR(IN_USE, cubeyard_resize(allocator, first, MIB), "pinned");
    EXPECT_OK(cubeyard_unpin(allocator, pin));
    EXPECT_OK(cubeyard_resize(allocator, first, MIB));
    EXPECT(stat(allocator, "allocated_bytes.all.current") == (int64_t)(2 * MIB));
    EXPECT_OK(cubeyard_free(allocator, second));
    EXPECT_ERROR(STALE, cubeyard_resize(allocator, second, MIB), "freed before");
    EXPECT_OK(cubeyard_free(allocator, first));
    EXPECT_OK(cubeyard_destroy(allocator));
}

static void exports_keep_their_block(void) {
    driver driver = {0};
    cubeyard_allocator *allocator = growing(&driver, 1), *without = growing(&driver, 0);
    cubeyard_block first = allocate(allocator, MIB), block = allocate(allocator, MIB);
    uint64_t export_number, offset, id;
    uint8_t handle[CUBEYARD_EXPORT_MAX];
    size_t length;
    EXPECT_OK(cubeyard_export_begin(allocator, block, &export_number));
    EXPECT_ERROR(BUFFER, cubeyard_export_handle(allocator, export_number, handle, 4, &length, &offset), "8");
    EXPECT(length == 8);
    EXPECT_OK(cubeyard_export_handle(allocator, export_number, handle, sizeof handle, &length, &offset));
    memcpy(&id, handle, sizeof id);
    EXPECT(id == resolve(allocator, block).address.region_id && offset == MIB && driver.exports == 1);
    EXPECT_OK(cubeyard_free(allocator, block));
    EXPECT(stat(allocator, "allocated_bytes.all.current") == (int64_t)(2 * MIB));
    EXPECT_ERROR(IN_USE, cubeyard_destroy(allocator), "1 pins");
    EXPECT_OK(cubeyard_export_end(allocator, export_number));
    EXPECT_ERROR(STALE, cubeyard_export_end(allocator, export_number), "no such export");
    EXPECT_ERROR(STALE, cubeyard_export_begin(allocator, block, &export_number), "freed before");
    EXPECT_OK(cubeyard_free(allocator, first));
    EXPECT_OK(cubeyard_destroy(allocator));

    block = allocate(without, MIB);
    EXPECT_ERROR(UNSUPPORTED, cubeyard_export_begin(without, block, &export_number), "no export handle");
    EXPECT_OK(cubeyard_free(without, block));
    EXPECT_OK(cubeyard_destroy(without));
}

static void pools_and_tags_rest(void) {
    driver driver = {0};
    cubeyard_allocator *allocator = growing(&driver, 1);
    cubeyard_request request = {.size = 40 * MIB};
    cubeyard_block weights, rollout, cache;
    cubeyard_address place;
    uint32_t pool, tag;
    uint64_t bytes = 0, export_number, pin;
    EXPECT_OK(cubeyard_pool_create(allocator, "weights", CUBEYARD_NO_LIMIT, &pool));
    EXPECT_OK(cubeyard_tag(allocator, "cache", &tag));
    EXPECT_OK(cubeyard_allocate_in(allocator, pool, 0, &request, &weights, &place));
    EXPECT_OK(cubeyard_pin(allocator, weights, &pin, NULL));
    EXPECT_ERROR(IN_USE, cubeyard_pool_pause(allocator, pool, NULL), "pinned");
    EXPECT_OK(cubeyard_unpin(allocator, pin));
    EXPECT_OK(cubeyard_pool_pause(allocator, pool, &bytes));
    EXPECT(bytes == 40 * MIB && driver.used == 0);
    EXPECT_ERROR(PAUSED, cubeyard_resize(allocator, weights, 44 * MIB), "paused");
    EXPECT_ERROR(PAUSED, cubeyard_export_begin(allocator, weights, &export_number), "paused");

    /* Others use the memory meanwhile; nothing is half resumed. */
    EXPECT_OK(cubeyard_allocate(allocator, &request, &rollout, NULL));
    EXPECT_ERROR(FULL, cubeyard_pool_resume(allocator, pool, NULL), "40.00 MiB");
    EXPECT_OK(cubeyard_free(allocator, rollout));
    EXPECT_OK(cubeyard_pool_resume(allocator, pool, &bytes));
    EXPECT(bytes == 40 * MIB && resolve(allocator, weights).address.offset == place.offset);
    EXPECT(resolve(allocator, weights).address.region_id == place.region_id);
    EXPECT_OK(cubeyard_free(allocator, weights));
    EXPECT_OK(cubeyard_pool_destroy(allocator, pool));
    EXPECT_ERROR(STALE, cubeyard_pool_pause(allocator, pool, NULL), "closed");
    EXPECT_ERROR(STALE, cubeyard_pool_resume(allocator, pool, NULL), "closed");

    request.size = 10 * MIB;
    EXPECT_OK(cubeyard_allocate_in(allocator, 0, tag, &request, &cache, NULL));
    EXPECT_OK(cubeyard_tag_pause(allocator, tag, &bytes));
    EXPECT(bytes == 10 * MIB);
    EXPECT_OK(cubeyard_tag_resume(allocator, tag, NULL));
    EXPECT_ERROR(UNKNOWN_KEY, cubeyard_tag_pause(allocator, 77, NULL), "no tag");
    EXPECT_ERROR(UNKNOWN_KEY, cubeyard_tag_resume(allocator, 1 << 16, NULL), "no tag 65536");
    EXPECT_OK(cubeyard_free(allocator, cache));
    EXPECT_OK(cubeyard_destroy(allocator));

    allocator = on_card("fallback_sizes:[16MiB]", CUBEYARD_MODE_PF, 0, 64 * MIB);
    EXPECT_ERROR(UNSUPPORTED, cubeyard_pool_pause(allocator, 0, NULL), "growable");
    EXPECT_OK(cubeyard_destroy(allocator));
}

int main(void) {
    compaction_in_steps();
    blocks_grow_in_place();
    exports_keep_their_block();
    pools_and_tags_rest();
    printf("%d expectations hold\n", expectations);
    return 0;
}
