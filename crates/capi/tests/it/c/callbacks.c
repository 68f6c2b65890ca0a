/* A device, streams and a sink that are functions of the program, and memory of the process. */
#include "expect.h"

/* A device that counts: regions of a million each, and granules. */
typedef struct device {
    uint64_t total, used, regions, next_id;
} device;

static int acquire(void *user, uint64_t size, uint64_t *id) {
    device *self = user;
    if (self->used + size > self->total)
        return 0;
    self->used += size;
    self->regions++;
    *id = self->next_id++;
    return 1;
}
static void release(void *user, uint64_t id, uint64_t size) {
    device *self = user;
    EXPECT(id < self->next_id);
    /* A reserved region goes back with what is committed in it, which only the device knows. */
    self->used = size > self->used ? 0 : self->used - size;
    self->regions--;
}
static void info(void *user, uint64_t *free_bytes, uint64_t *total_bytes) {
    device *self = user;
    *free_bytes = self->total - self->used;
    *total_bytes = self->total;
}
static int reserve(void *user, uint64_t size, uint64_t *id) {
    device *self = user;
    (void)size;
    self->regions++;
    *id = self->next_id++;
    return 1;
}
static int commit(void *user, uint64_t id, uint64_t offset, uint64_t size) {
    device *self = user;
    (void)id;
    EXPECT(offset % (2 * MIB) == 0 && size % (2 * MIB) == 0);
    if (self->used + size > self->total)
        return 0;
    self->used += size;
    return 1;
}
static void decommit(void *user, uint64_t id, uint64_t offset, uint64_t size) {
    device *self = user;
    (void)id, (void)offset;
    self->used -= size;
}

static cubeyard_device functions(device *self) {
    cubeyard_device device = {0};
    device.struct_size = sizeof device;
    device.mode = CUBEYARD_MODE_VF;
    device.granule = 2 * MIB;
    device.user = self;
    device.acquire = acquire;
    device.release = release;
    device.info = info;
    device.reserve = reserve;
    device.commit = commit;
    device.decommit = decommit;
    return device;
}

/* Streams that pass a point when they are told or waited for. */
typedef struct streams {
    uint64_t recorded, passed, waits;
} streams;

static uint64_t record(void *user, uint32_t stream) {
    (void)stream;
    return ++((streams *)user)->recorded;
}
static int is_complete(void *user, uint64_t event) { return event <= ((streams *)user)->passed; }
static void wait_for(void *user, uint64_t event) {
    streams *self = user;
    self->waits++;
    if (self->passed < event)
        self->passed = event;
}

static void a_device_of_ones_own(const char *text) {
    device self = {16 * MIB, 0, 0, 40};
    cubeyard_device device = functions(&self);
    cubeyard_config *config;
    cubeyard_allocator *allocator;
    EXPECT_OK(cubeyard_config_new(text, &config));
    EXPECT_OK(cubeyard_create_device(config, &device, &allocator));
    cubeyard_config_free(config);

    cubeyard_block block = allocate(allocator, 3 * MIB);
    uint64_t free_bytes, total_bytes, released;
    EXPECT(self.regions == 1 && self.used >= 3 * MIB);
    EXPECT((uint64_t)stat(allocator, "reserved_bytes.all.current") == self.used);
    EXPECT_OK(cubeyard_memory_info(allocator, &free_bytes, &total_bytes));
    EXPECT(total_bytes == self.total && free_bytes == self.total - self.used);
    EXPECT_OK(cubeyard_free(allocator, block));
    EXPECT_OK(cubeyard_reset_accumulated_stats(allocator));
    EXPECT_OK(cubeyard_reset_peak_stats(allocator));
    EXPECT(stat(allocator, "allocated_bytes.all.peak") == 0);
    EXPECT(stat(allocator, "allocated_bytes.all.freed") == 0);
    EXPECT_OK(cubeyard_trim(allocator, &released));
    EXPECT(self.regions == 0);
    EXPECT(self.used + released <= self.total);

    /* What is there when an allocator is abandoned goes back too. */
    allocate(allocator, MIB);
    EXPECT(self.regions == 1);
    EXPECT_OK(cubeyard_abandon(allocator));
    EXPECT(self.regions == 0);
}

static void streams_delay_frees(void) {
    device self = {16 * MIB, 0, 0, 0};
    streams streams = {0};
    cubeyard_device device = functions(&self);
    cubeyard_events events = {sizeof events, &streams, record, is_complete, wait_for};
    cubeyard_config *config;
    cubeyard_allocator *allocator;
    EXPECT_OK(cubeyard_config_new("fallback_sizes:[16MiB]", &config));
    EXPECT_OK(cubeyard_config_events(config, &events));
    EXPECT_OK(cubeyard_create_device(config, &device, &allocator));
    cubeyard_config_free(config);

    cubeyard_block block = allocate(allocator, 1024);
    EXPECT_OK(cubeyard_record_stream(allocator, block, 5));
    EXPECT_OK(cubeyard_free(allocator, block));
    EXPECT_ERROR(STALE, cubeyard_free(allocator, block), "freed before");
    EXPECT_ERROR(STALE, cubeyard_record_stream(allocator, block, 6), "freed before");
    EXPECT(stat(allocator, "allocated_bytes.all.current") == 0);
    EXPECT(stat(allocator, "active_bytes.all.current") == 1024);
    EXPECT_OK(cubeyard_synchronize(allocator));
    EXPECT(stat(allocator, "active_bytes.all.current") == 0);
    EXPECT(streams.recorded == 1 && streams.waits == 1); /* its own stream is in order */

    /* Destroying waits for what is freed but not passed. */
    block = allocate(allocator, 1024);
    EXPECT_OK(cubeyard_record_stream(allocator, block, 5));
    EXPECT_OK(cubeyard_free(allocator, block));
    EXPECT_OK(cubeyard_destroy(allocator));
    EXPECT(streams.waits == 2 && self.regions == 0);
}

static int append(void *user, const void *bytes, size_t length) {
    *(size_t *)user += length;
    EXPECT(bytes != NULL && length > 0);
    return 0;
}

static void host_memory(void) {
    cubeyard_allocator *allocator;
    cubeyard_config *config;
    EXPECT_OK(cubeyard_config_new("fallback_sizes:[4MiB],history:10", &config));
    EXPECT_OK(cubeyard_create_host(config, 8 * MIB, &allocator));
    cubeyard_config_free(config);
    cubeyard_request request = {.size = 6, .alignment = 4096, .site = 3};
    cubeyard_block block;
    cubeyard_address address;
    EXPECT_OK(cubeyard_allocate(allocator, &request, &block, &address));
    char *text = (char *)(uintptr_t)(address.region_id + address.offset);
    EXPECT((uintptr_t)text % 4096 == 0);
    memcpy(text, "hello", 6);
    EXPECT(strcmp(text, "hello") == 0);
    size_t length = 0;
    EXPECT_OK(cubeyard_snapshot_write(allocator, 1, append, &length));
    EXPECT(length > 100);
    EXPECT_OK(cubeyard_free(allocator, block));
    EXPECT_OK(cubeyard_destroy(allocator));
}

int main(void) {
    a_device_of_ones_own("fallback_sizes:[8MiB]");
    a_device_of_ones_own("growth:growable(1GiB)");
    streams_delay_frees();
    host_memory();
    printf("%d expectations hold\n", expectations);
    return 0;
}
