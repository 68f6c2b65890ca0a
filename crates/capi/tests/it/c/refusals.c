/* A device that refuses regions for a while, and returns one twice. */
#include "expect.h"

static struct {
    int refuse, repeat;
    uint64_t asked, next, released, live;
} card;

static int acquire(void *user, uint64_t size, uint64_t *id) {
    (void)user, (void)size;
    card.asked++;
    if (card.refuse)
        return 0;
    *id = card.repeat ? card.next : ++card.next;
    card.live += !card.repeat;
    return 1;
}
static void release(void *user, uint64_t id, uint64_t size) {
    (void)user, (void)id, (void)size;
    card.released++;
    card.live--;
}
static void info(void *user, uint64_t *free_bytes, uint64_t *total_bytes) {
    (void)user;
    *total_bytes = 64 * MIB;
    *free_bytes = *total_bytes - card.live * 8 * MIB;
}

static cubeyard_allocator *created(const char *text) {
    cubeyard_device device = {.struct_size = sizeof device, .mode = CUBEYARD_MODE_PF, .acquire = acquire,
                              .release = release, .info = info};
    cubeyard_config *config;
    cubeyard_allocator *allocator;
    memset(&card, 0, sizeof card);
    EXPECT_OK(cubeyard_config_new(text, &config));
    EXPECT_OK(cubeyard_create_device(config, &device, &allocator));
    cubeyard_config_free(config);
    return allocator;
}

int main(void) {
    cubeyard_request whole = {.size = 8 * MIB}, larger = {.size = 20 * MIB};
    cubeyard_block block, other;
    cubeyard_config *config;
    int locked;

    /* Asked again by the next request that needs a region. */
    cubeyard_allocator *allocator = created("fallback_sizes:[8MiB]");
    card.refuse = 1;
    EXPECT_ERROR(FULL, cubeyard_allocate(allocator, &whole, &block, NULL), "out of memory");
    card.refuse = 0;
    EXPECT_OK(cubeyard_allocate(allocator, &whole, &block, NULL));

    /* The same region twice: the second is neither used nor released. */
    card.repeat = 1;
    EXPECT_ERROR(DEVICE, cubeyard_allocate(allocator, &whole, &other, NULL), "region 0x1 twice");
    card.repeat = 0;
    EXPECT_OK(cubeyard_allocate(allocator, &whole, &other, NULL));
    EXPECT(card.released == 0);
    EXPECT_OK(cubeyard_free(allocator, block));
    EXPECT_OK(cubeyard_free(allocator, other));
    EXPECT_OK(cubeyard_destroy(allocator));
    EXPECT(card.released == 2 && card.live == 0);

    /* As published: locked, until it is unlocked. */
    allocator = created("fallback_sizes:[8MiB],preset:rfc");
    card.refuse = 1;
    EXPECT_ERROR(FULL, cubeyard_allocate(allocator, &whole, &block, NULL), "out of memory");
    card.refuse = 0;
    EXPECT_ERROR(FULL, cubeyard_allocate(allocator, &whole, &block, NULL), "out of memory");
    EXPECT(card.asked == 1);
    EXPECT_OK(cubeyard_regions_locked(allocator, &locked));
    EXPECT(locked);
    EXPECT_OK(cubeyard_unlock_regions(allocator));
    EXPECT_OK(cubeyard_regions_locked(allocator, &locked));
    EXPECT(!locked);
    EXPECT_OK(cubeyard_allocate(allocator, &whole, &block, NULL));
    EXPECT_ERROR(TOO_BIG, cubeyard_allocate(allocator, &larger, &other, NULL), "longest block");
    EXPECT_OK(cubeyard_free(allocator, block));
    EXPECT_OK(cubeyard_destroy(allocator));
    EXPECT_ERROR(ARGUMENT, cubeyard_unlock_regions(NULL), "allocator");

    /* A region of its own for a request that no size holds. */
    allocator = created("fallback_sizes:[8MiB],sizes:fitted");
    EXPECT_OK(cubeyard_allocate(allocator, &larger, &other, NULL));
    EXPECT_OK(cubeyard_free(allocator, other));
    EXPECT_OK(cubeyard_destroy(allocator));

    EXPECT_ERROR(CONFIG, cubeyard_config_new("preset:rcf", &config), "one of rfc, grow, card");
    EXPECT_OK(cubeyard_config_new("preset:card", &config));
    EXPECT_ERROR(CONFIG, cubeyard_config_set(config, "preset", "all"), "one of rfc, grow, card");
    cubeyard_config_free(config);
    printf("%d expectations hold\n", expectations);
    return 0;
}
