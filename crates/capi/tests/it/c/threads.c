/* Threads that free what others have allocated, while one takes figures and snapshots and another one
 * compacts. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "expect.h"

enum { PAIRS = 3, BLOCKS = 2000 };

static cubeyard_allocator *allocator;

/* One block on its way from one thread to another. */
typedef struct channel {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int full;
    cubeyard_block block;
} channel;

static void *produce(void *user) {
    channel *channel = user;
    for (uint64_t i = 0; i < BLOCKS; i++) {
        cubeyard_request request = {.size = 100 + i * 37 % 5000};
        cubeyard_block block;
        EXPECT_OK(cubeyard_allocate(allocator, &request, &block, NULL));
        pthread_mutex_lock(&channel->lock);
        while (channel->full)
            pthread_cond_wait(&channel->changed, &channel->lock);
        channel->block = block;
        channel->full = 1;
        pthread_cond_broadcast(&channel->changed);
        pthread_mutex_unlock(&channel->lock);
    }
    return NULL;
}

static void *consume(void *user) {
    channel *channel = user;
    for (int i = 0; i < BLOCKS; i++) {
        pthread_mutex_lock(&channel->lock);
        while (!channel->full)
            pthread_cond_wait(&channel->changed, &channel->lock);
        cubeyard_block block = channel->block;
        channel->full = 0;
        pthread_cond_broadcast(&channel->changed);
        pthread_mutex_unlock(&channel->lock);
        uint64_t pin;
        EXPECT_OK(cubeyard_pin(allocator, block, &pin, NULL));
        EXPECT_OK(cubeyard_free(allocator, block));
        EXPECT_ERROR(STALE, cubeyard_free(allocator, block), "freed before");
        EXPECT_OK(cubeyard_unpin(allocator, pin));
    }
    return NULL;
}

static int discard(void *user, const void *bytes, size_t length) {
    (void)user, (void)bytes, (void)length;
    return 0;
}

static void *watch(void *user) {
    (void)user;
    for (int i = 0; i < 20; i++) {
        int64_t allocated, active;
        EXPECT_OK(cubeyard_stat(allocator, "allocated_bytes.all.current", &allocated));
        EXPECT_OK(cubeyard_stat(allocator, "active_bytes.all.current", &active));
        EXPECT(allocated >= 0 && active >= 0);
        EXPECT_OK(cubeyard_snapshot_write(allocator, 0, discard, NULL));
    }
    return NULL;
}

/* Blocks are moved while pins outlive them. (Such a pin could panic, and its block leaked.) */
static void *compact(void *user) {
    (void)user;
    for (int i = 0; i < 2000; i++) {
        uint64_t plan;
        EXPECT_OK(cubeyard_compact(allocator, &plan, NULL));
        EXPECT_OK(cubeyard_plan_commit(allocator, plan, NULL));
    }
    return NULL;
}

/* The text of an error belongs to the thread on which it was made. */
static void *see_no_error(void *user) {
    (void)user;
    EXPECT(strcmp(cubeyard_last_error(), "") == 0);
    return NULL;
}

int main(void) {
    static channel channels[PAIRS];
    pthread_t threads[2 * PAIRS + 3];
    const char *text = "fallback_sizes:[16MiB],region:thread-home,history:500";
    allocator = on_card(text, CUBEYARD_MODE_PF, 0, 64 * MIB);

    cubeyard_block none = {0, 0};
    EXPECT_ERROR(STALE, cubeyard_free(allocator, none), "freed before");
    pthread_create(&threads[0], NULL, see_no_error, NULL);
    pthread_create(&threads[1], NULL, watch, NULL);
    pthread_create(&threads[2], NULL, compact, NULL);
    for (int i = 0; i < PAIRS; i++) {
        pthread_mutex_init(&channels[i].lock, NULL);
        pthread_cond_init(&channels[i].changed, NULL);
        pthread_create(&threads[3 + 2 * i], NULL, produce, &channels[i]);
        pthread_create(&threads[4 + 2 * i], NULL, consume, &channels[i]);
    }
    for (int i = 0; i < 2 * PAIRS + 3; i++)
        pthread_join(threads[i], NULL);

    /* A move counts as an allocation and a free, as it does in histories. */
    int64_t allocated, freed;
    EXPECT_OK(cubeyard_stat(allocator, "allocation.all.allocated", &allocated));
    EXPECT_OK(cubeyard_stat(allocator, "allocation.all.freed", &freed));
    EXPECT(freed >= PAIRS * BLOCKS && allocated == freed);
    EXPECT_OK(cubeyard_destroy(allocator));
    printf("%d blocks freed on other threads\n", PAIRS * BLOCKS);
    return 0;
}
