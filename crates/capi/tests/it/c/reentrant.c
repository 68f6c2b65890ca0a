/* A device whose functions call the allocator that calls them. Each such call waited for itself. */
#include <unistd.h>

#include "expect.h"

static cubeyard_allocator *allocator;
static cubeyard_block kept;
static int calls, refused;

/* Frees, looks, allocates and trims, as the header says that it may. */
static void call_back(void) {
    if (allocator == NULL)
        return;
    calls++;
    cubeyard_request request = {.size = MIB};
    int64_t value;
    EXPECT_OK(cubeyard_stat(allocator, "allocation.all.current", &value));
    cubeyard_status status = cubeyard_allocate(allocator, &request, &kept, NULL);
    if (status == CUBEYARD_OK)
        EXPECT_OK(cubeyard_free(allocator, kept));
    else {
        refused++;
        EXPECT(status == CUBEYARD_ERROR_REENTRANT);
    }
    EXPECT_ERROR(REENTRANT, cubeyard_trim(allocator, NULL), "calling its device");
    EXPECT_ERROR(REENTRANT, cubeyard_destroy(allocator), "calling its device");
    EXPECT_ERROR(REENTRANT, cubeyard_abandon(allocator), "calling its device");
}

static int acquire(void *user, uint64_t size, uint64_t *id) {
    (void)size;
    call_back();
    *id = (*(uint64_t *)user)++;
    return 1;
}
static void release(void *user, uint64_t id, uint64_t size) {
    (void)user, (void)id, (void)size;
    call_back();
}
static void info(void *user, uint64_t *free_bytes, uint64_t *total_bytes) {
    (void)user;
    *free_bytes = *total_bytes = 64 * MIB;
}

/* Allocates, trims, and tries to end the allocator that calls it. */
static int pressed;
static void under_pressure(void *user, const cubeyard_out_of_memory *report) {
    cubeyard_request request = {.size = 64 * MIB};
    (void)user;
    pressed++;
    EXPECT(report->requested == 8 * MIB);
    EXPECT_ERROR(TOO_BIG, cubeyard_allocate(allocator, &request, &kept, NULL), "longest block");
    EXPECT_OK(cubeyard_trim(allocator, NULL));
    EXPECT_ERROR(REENTRANT, cubeyard_destroy(allocator), "request that is under way");
    EXPECT_ERROR(REENTRANT, cubeyard_abandon(allocator), "request that is under way");
}

int main(void) {
    alarm(20); /* a call that waits for itself would wait for ever */
    uint64_t next = 0;
    cubeyard_device device = {0};
    device.struct_size = sizeof device;
    device.mode = CUBEYARD_MODE_PF;
    device.user = &next;
    device.acquire = acquire;
    device.release = release;
    device.info = info;
    cubeyard_config *config;
    EXPECT_OK(cubeyard_config_new("fallback_sizes:[4MiB]", &config));
    EXPECT_OK(cubeyard_create_device(config, &device, &allocator));
    cubeyard_config_free(config);

    cubeyard_request request = {.size = 3 * MIB};
    cubeyard_block first, second;
    EXPECT_OK(cubeyard_allocate(allocator, &request, &first, NULL));
    EXPECT(calls == 1 && refused == 1); /* there was no region to allocate from */
    EXPECT_OK(cubeyard_allocate(allocator, &request, &second, NULL));
    EXPECT(calls == 2 && refused == 1); /* there was room in the first region */
    EXPECT_OK(cubeyard_free(allocator, first));
    EXPECT_OK(cubeyard_free(allocator, second));
    EXPECT_OK(cubeyard_trim(allocator, NULL));
    EXPECT(calls == 4);
    EXPECT_OK(cubeyard_on_pressure(allocator, under_pressure, NULL));
    request.size = 8 * MIB;
    EXPECT_ERROR(TOO_BIG, cubeyard_allocate(allocator, &request, &first, NULL), "longest block");
    EXPECT(pressed == 1);
    EXPECT_OK(cubeyard_destroy(allocator));
    printf("%d calls back\n", calls);
    return 0;
}
