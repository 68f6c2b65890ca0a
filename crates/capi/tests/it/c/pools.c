/* Pools with regions, figures and limits of their own; tags with budgets. */
#include "expect.h"

static cubeyard_allocator *small_card(void) {
    return on_card("fallback_sizes:[16MiB]", CUBEYARD_MODE_PF, 0, 64 * MIB);
}

static cubeyard_status allocate_in(cubeyard_allocator *allocator, uint32_t pool, uint32_t tag, uint64_t size,
                                   cubeyard_block *block, cubeyard_address *address) {
    cubeyard_request request = {.size = size};
    return cubeyard_allocate_in(allocator, pool, tag, &request, block, address);
}

static int64_t pool_stat(cubeyard_allocator *allocator, uint32_t pool, const char *key) {
    int64_t value = -7;
    EXPECT_OK(cubeyard_pool_stat(allocator, pool, key, &value));
    return value;
}

static void blocks_of_a_pool_lie_in_its_regions(void) {
    cubeyard_allocator *allocator = small_card();
    cubeyard_block ordinary, first, second;
    cubeyard_address place, other;
    uint32_t pool, another;
    uint64_t released = 0;
    int64_t value;
    EXPECT_OK(cubeyard_pool_create(allocator, "graph", 16 * MIB, &pool));
    EXPECT_OK(cubeyard_pool_create(allocator, "graph", CUBEYARD_NO_LIMIT, &another));
    EXPECT(pool != 0 && another != 0 && pool != another);
    EXPECT_OK(allocate_in(allocator, 0, 0, MIB, &ordinary, &other));
    EXPECT_OK(allocate_in(allocator, pool, 0, 10 * MIB, &first, &place));
    EXPECT(place.region_id != other.region_id);
    EXPECT(pool_stat(allocator, pool, "allocated_bytes.all.current") == (int64_t)(10 * MIB));
    EXPECT(stat(allocator, "allocated_bytes.all.current") == (int64_t)(11 * MIB));
    EXPECT(pool_stat(allocator, another, "reserved_bytes.all.current") == 0);

    /* The limit holds until it is raised. */
    EXPECT_ERROR(FULL, allocate_in(allocator, pool, 0, 10 * MIB, &second, NULL), "graph");
    EXPECT_OK(cubeyard_pool_limit(allocator, pool, 32 * MIB));
    EXPECT_OK(allocate_in(allocator, pool, 0, 10 * MIB, &second, NULL));
    EXPECT(pool_stat(allocator, pool, "reserved_bytes.all.current") == (int64_t)(32 * MIB));
    EXPECT_OK(cubeyard_free(allocator, second));
    EXPECT_OK(cubeyard_pool_trim(allocator, pool, &released));
    EXPECT(released == 16 * MIB);
    EXPECT_OK(cubeyard_pool_trim(allocator, pool, NULL));

    /* A block outlives its pool, and its region follows it. */
    EXPECT_OK(cubeyard_pool_destroy(allocator, pool));
    EXPECT_ERROR(STALE, cubeyard_pool_destroy(allocator, pool), "no pool");
    EXPECT_ERROR(STALE, cubeyard_pool_trim(allocator, pool, NULL), "no pool");
    EXPECT_ERROR(STALE, cubeyard_pool_limit(allocator, pool, MIB), "no pool");
    EXPECT_ERROR(STALE, cubeyard_pool_stat(allocator, pool, "num_ooms", &value), "no pool");
    EXPECT_ERROR(STALE, allocate_in(allocator, pool, 0, MIB, &second, NULL), "no pool");
    EXPECT(stat(allocator, "reserved_bytes.all.current") == (int64_t)(32 * MIB));
    EXPECT_OK(cubeyard_free(allocator, first));
    EXPECT(stat(allocator, "reserved_bytes.all.current") == (int64_t)(16 * MIB));
    EXPECT_OK(cubeyard_free(allocator, ordinary));
    EXPECT_OK(cubeyard_destroy(allocator));
}

static void crossed(void *user, const cubeyard_event *event) {
    if (event->action == CUBEYARD_EVENT_BUDGET_EXCEEDED && event->size == 3 * MIB)
        *(uint32_t *)user = event->tag;
}

static void budgets_refuse_and_notify(void) {
    cubeyard_allocator *allocator = small_card();
    cubeyard_tag_figures figures;
    cubeyard_block first, second, third;
    uint32_t cache, same, noted = 0;
    uint64_t subscription;
    EXPECT_OK(cubeyard_tag(allocator, "cache", &cache));
    EXPECT_OK(cubeyard_tag(allocator, "cache", &same));
    EXPECT(cache != 0 && cache == same);
    EXPECT_OK(cubeyard_tag_budget(allocator, cache, 2 * MIB, 4 * MIB));
    EXPECT_OK(cubeyard_subscribe(allocator, crossed, &noted, &subscription));
    EXPECT_OK(allocate_in(allocator, 0, cache, 2 * MIB, &first, NULL));
    EXPECT(noted == 0);
    EXPECT_OK(allocate_in(allocator, 0, cache, MIB, &second, NULL));
    EXPECT(noted == cache);
    EXPECT_ERROR(BUDGET, allocate_in(allocator, 0, cache, 2 * MIB, &third, NULL),
                 "tag `cache` is over its hard budget of 4.00 MiB");
    EXPECT_OK(cubeyard_tag_report(allocator, cache, &figures));
    EXPECT(figures.allocated == 3 * MIB && figures.peak == 3 * MIB && figures.blocks == 2);
    EXPECT(figures.soft == 2 * MIB && figures.hard == 4 * MIB);
    EXPECT_OK(cubeyard_tag_budget(allocator, cache, CUBEYARD_NO_LIMIT, CUBEYARD_NO_LIMIT));
    EXPECT_OK(allocate_in(allocator, 0, cache, 2 * MIB, &third, NULL));
    EXPECT_OK(cubeyard_tag_report(allocator, cache, &figures));
    EXPECT(figures.allocated == 5 * MIB && figures.hard == CUBEYARD_NO_LIMIT);

    EXPECT_ERROR(UNKNOWN_KEY, cubeyard_tag_budget(allocator, cache + 1, MIB, MIB), "no tag");
    EXPECT_ERROR(UNKNOWN_KEY, cubeyard_tag_report(allocator, 1 << 16, &figures), "no tag");
    EXPECT_ERROR(UNKNOWN_KEY, allocate_in(allocator, 0, cache + 1, MIB, &third, NULL), "no tag");
    EXPECT_ERROR(UNKNOWN_KEY, allocate_in(allocator, 0, 1 << 16, MIB, &third, NULL), "no tag 65536");
    EXPECT_ERROR(ARGUMENT, cubeyard_tag(allocator, NULL, &cache), "`name` is NULL");
    EXPECT_ERROR(ARGUMENT, cubeyard_pool_create(allocator, NULL, MIB, &cache), "`name` is NULL");
    EXPECT_ERROR(ARGUMENT, cubeyard_pool_create(allocator, "pool", MIB, NULL), "`pool` is NULL");
    EXPECT_OK(cubeyard_abandon(allocator));
}

int main(void) {
    blocks_of_a_pool_lie_in_its_regions();
    budgets_refuse_and_notify();
    printf("%d expectations hold\n", expectations);
    return 0;
}
