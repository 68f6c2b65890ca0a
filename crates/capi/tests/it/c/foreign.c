/* Two allocators: what belongs to one is refused by the other. Their first blocks and pins had the same
 * numbers, so one freed the other's. */
#include "expect.h"

int main(void) {
    cubeyard_allocator *ours = on_card("fallback_sizes:[16MiB]", CUBEYARD_MODE_VF, 8, 64 * MIB);
    cubeyard_allocator *theirs = on_card("fallback_sizes:[16MiB]", CUBEYARD_MODE_VF, 8, 64 * MIB);
    cubeyard_request request = {.size = 1000};
    cubeyard_block own, foreign;
    cubeyard_block_info info;
    uint64_t pin, other_pin;
    int64_t live;
    EXPECT_OK(cubeyard_allocate(ours, &request, &own, NULL));
    EXPECT_OK(cubeyard_allocate(theirs, &request, &foreign, NULL));
    EXPECT_ERROR(FOREIGN, cubeyard_free(ours, foreign), "another allocator");
    EXPECT_ERROR(FOREIGN, cubeyard_resolve(ours, foreign, &info), "another allocator");
    EXPECT_ERROR(FOREIGN, cubeyard_pin(ours, foreign, &pin, NULL), "another allocator");
    EXPECT_ERROR(FOREIGN, cubeyard_record_stream(ours, foreign, 1), "another allocator");
    EXPECT_OK(cubeyard_stat(ours, "allocation.all.current", &live));
    EXPECT(live == 1);

    EXPECT_OK(cubeyard_pin(ours, own, &pin, NULL));
    EXPECT_OK(cubeyard_pin(theirs, foreign, &other_pin, NULL));
    EXPECT_ERROR(STALE, cubeyard_unpin(ours, other_pin), "another's");
    EXPECT_OK(cubeyard_unpin(ours, pin));
    EXPECT_OK(cubeyard_unpin(theirs, other_pin));
    EXPECT_OK(cubeyard_free(ours, own));
    EXPECT_OK(cubeyard_free(theirs, foreign));

    /* A block of an allocator that is gone is none of the next one's. */
    EXPECT_OK(cubeyard_allocate(theirs, &request, &foreign, NULL));
    EXPECT_OK(cubeyard_abandon(theirs));
    theirs = on_card("fallback_sizes:[16MiB]", CUBEYARD_MODE_VF, 8, 64 * MIB);
    EXPECT_OK(cubeyard_allocate(theirs, &request, &own, NULL));
    EXPECT_ERROR(FOREIGN, cubeyard_free(theirs, foreign), "another allocator");
    EXPECT_OK(cubeyard_free(theirs, own));
    EXPECT_OK(cubeyard_destroy(ours));
    EXPECT_OK(cubeyard_destroy(theirs));
    printf("%d expectations hold\n", expectations);
    return 0;
}
