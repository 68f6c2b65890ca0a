/* Every way of calling wrongly that can be noticed: an error, and nothing changed. */
#include "expect.h"

static void configurations(void) {
    cubeyard_config *config = NULL;
    uint32_t mode = 0;
    EXPECT_ERROR(CONFIG, cubeyard_config_new("blocks:best-fit", &config), "unknown key `blocks`");
    EXPECT_ERROR(CONFIG, cubeyard_config_new("max_regions:0", &config), "from 1 to 1024");
    EXPECT_ERROR(ARGUMENT, cubeyard_config_new("block:\xff", &config), "`text` is not UTF-8");
    EXPECT_ERROR(ARGUMENT, cubeyard_config_new("", NULL), "`config` is NULL");
    EXPECT(config == NULL);
    EXPECT_OK(cubeyard_config_new(NULL, &config));
    EXPECT_ERROR(CONFIG, cubeyard_config_set(config, "alignment", "100"), "`alignment:100`");
    EXPECT_ERROR(ARGUMENT, cubeyard_config_set(config, NULL, "100"), "`key` is NULL");
    EXPECT_OK(cubeyard_config_mode(config, &mode));
    EXPECT(mode == CUBEYARD_MODE_PF);

    cubeyard_events events = {0};
    EXPECT_ERROR(ARGUMENT, cubeyard_config_events(config, &events), "struct_size of 0");
    events.struct_size = sizeof events;
    EXPECT_ERROR(ARGUMENT, cubeyard_config_events(config, &events), "`events.record` is NULL");
    cubeyard_config_free(config);
    cubeyard_config_free(NULL);
}

static int never(void *user, uint64_t size, uint64_t *id) {
    (void)user, (void)size, (void)id;
    return 0;
}
static void nothing(void *user, uint64_t id, uint64_t size) { (void)user, (void)id, (void)size; }
static void no_memory(void *user, uint64_t *free_bytes, uint64_t *total) {
    (void)user;
    *free_bytes = *total = 0;
}

static void devices(void) {
    cubeyard_allocator *allocator = NULL;
    cubeyard_card no_such_mode = {9, 8, MIB};
    EXPECT_ERROR(ARGUMENT, cubeyard_create_card(NULL, NULL, &allocator), "`card` is NULL");
    EXPECT_ERROR(ARGUMENT, cubeyard_create_card(NULL, &no_such_mode, &allocator), "`mode`");

    cubeyard_device device = {0};
    EXPECT_ERROR(ARGUMENT, cubeyard_create_device(NULL, &device, &allocator), "struct_size of 0");
    device.struct_size = sizeof device;
    EXPECT_ERROR(ARGUMENT, cubeyard_create_device(NULL, &device, &allocator), "`device.acquire`");
    device.acquire = never;
    device.release = nothing;
    device.info = no_memory;
    device.granule = 3;
    EXPECT_ERROR(ARGUMENT, cubeyard_create_device(NULL, &device, &allocator), "power of two");
    device.granule = 4096;
    EXPECT_ERROR(ARGUMENT, cubeyard_create_device(NULL, &device, &allocator), "`device.reserve`");

    device.granule = 0;
    cubeyard_config *growable;
    EXPECT_OK(cubeyard_config_new("growth:growable(1GiB)", &growable));
    EXPECT_ERROR(UNSUPPORTED, cubeyard_create_device(growable, &device, &allocator), "granules");
    EXPECT(allocator == NULL);
    cubeyard_config_free(growable);

    EXPECT_OK(cubeyard_create_device(NULL, &device, &allocator));
    cubeyard_request request = {.size = 1};
    cubeyard_block block;
    EXPECT_ERROR(TOO_BIG, cubeyard_allocate(allocator, &request, &block, NULL), "no region can be acquired");
    EXPECT_OK(cubeyard_destroy(allocator));
}

static void requests(void) {
    cubeyard_allocator *allocator = on_card("fallback_sizes:[16MiB]", CUBEYARD_MODE_VF, 8, 64 * MIB);
    cubeyard_block block = {7, 7};
    cubeyard_request request = {0};
    EXPECT_ERROR(ARGUMENT, cubeyard_allocate(allocator, &request, &block, NULL), "zero bytes");
    request.size = 1;
    request.alignment = 3;
    EXPECT_ERROR(ARGUMENT, cubeyard_allocate(allocator, &request, &block, NULL), "power of two");
    request.alignment = 0;
    request.kind = 3;
    EXPECT_ERROR(ARGUMENT, cubeyard_allocate(allocator, &request, &block, NULL), "`request.kind`");
    request.kind = 0;
    request.reserved = 1;
    EXPECT_ERROR(ARGUMENT, cubeyard_allocate(allocator, &request, &block, NULL), "reserved");
    request.reserved = 0;
    EXPECT_ERROR(ARGUMENT, cubeyard_allocate(NULL, &request, &block, NULL), "`allocator` is NULL");
    EXPECT_ERROR(ARGUMENT, cubeyard_allocate(allocator, NULL, &block, NULL), "`request` is NULL");
    EXPECT_ERROR(ARGUMENT, cubeyard_allocate(allocator, &request, NULL, NULL), "`block` is NULL");
    uint64_t words[3] = {0};
    cubeyard_address *crooked = (cubeyard_address *)(void *)((char *)words + 1);
    EXPECT_ERROR(ARGUMENT, cubeyard_allocate(allocator, &request, &block, crooked), "not aligned");
    EXPECT(block.slot == 7 && block.key == 7);
    EXPECT(stat(allocator, "allocation.all.allocated") == 0);

    cubeyard_out_of_memory report;
    EXPECT_ERROR(UNKNOWN_KEY, cubeyard_last_out_of_memory(&report), "not out of memory");
    request.size = UINT64_MAX;
    EXPECT_ERROR(TOO_BIG, cubeyard_allocate(allocator, &request, &block, NULL), "ask for less");
    EXPECT_OK(cubeyard_last_out_of_memory(&report));
    EXPECT(report.status == CUBEYARD_ERROR_TOO_BIG && report.requested == UINT64_MAX);
    EXPECT(report.longest_block == 16 * MIB && strcmp(report.text, cubeyard_last_error()) == 0);
    EXPECT_OK(cubeyard_destroy(allocator));
}

static void blocks(void) {
    cubeyard_allocator *allocator = on_card("fallback_sizes:[16MiB]", CUBEYARD_MODE_VF, 8, 64 * MIB);
    cubeyard_address address, foreign = {99, 0};
    cubeyard_block none = {0, 0}, wild = {UINT64_MAX, UINT64_MAX};
    cubeyard_block_info info;
    uint64_t pin;

    /* A double free is noticed although another block has the place. */
    cubeyard_block first = allocate(allocator, 1000);
    EXPECT_OK(cubeyard_resolve(allocator, first, &info));
    address = info.address;
    EXPECT_OK(cubeyard_free(allocator, first));
    cubeyard_block second = allocate(allocator, 1000);
    EXPECT_OK(cubeyard_resolve(allocator, second, &info));
    EXPECT(info.address.region_id == address.region_id && info.address.offset == address.offset);
    EXPECT(info.size == 1024 && info.requested == 1000 && info.kind == CUBEYARD_TENSOR);
    EXPECT_ERROR(STALE, cubeyard_free(allocator, first), "freed before");
    EXPECT_ERROR(STALE, cubeyard_resolve(allocator, first, &info), "freed before");
    EXPECT_ERROR(STALE, cubeyard_pin(allocator, first, &pin, NULL), "freed before");
    EXPECT_ERROR(STALE, cubeyard_record_stream(allocator, first, 1), "freed before");
    EXPECT_ERROR(STALE, cubeyard_free(allocator, none), "freed before");
    EXPECT_ERROR(FOREIGN, cubeyard_free(allocator, wild), "another allocator");
    EXPECT(stat(allocator, "allocation.all.current") == 1);

    EXPECT_ERROR(FOREIGN, cubeyard_free_address(allocator, foreign), "0x63+0x0 is in no region");
    address.offset += 128;
    EXPECT_ERROR(NOT_LIVE, cubeyard_free_address(allocator, address), "inside a block");
    address.offset -= 128;
    EXPECT_OK(cubeyard_free_address(allocator, address));
    EXPECT_ERROR(NOT_LIVE, cubeyard_free_address(allocator, address), "freed before");
    EXPECT_ERROR(STALE, cubeyard_free(allocator, second), "freed before");

    /* A pin keeps what is freed under it; the handle is stale all the same. */
    cubeyard_block pinned = allocate(allocator, 1000);
    EXPECT_OK(cubeyard_pin(allocator, pinned, &pin, &info));
    EXPECT(info.size == 1024);
    EXPECT_OK(cubeyard_free(allocator, pinned));
    EXPECT_ERROR(STALE, cubeyard_free(allocator, pinned), "freed before");
    EXPECT_ERROR(STALE, cubeyard_resolve(allocator, pinned, &info), "freed before");
    EXPECT(stat(allocator, "active_bytes.all.current") == 1024);
    EXPECT_ERROR(IN_USE, cubeyard_destroy(allocator), "1 blocks and 1 pins are live");
    EXPECT_OK(cubeyard_unpin(allocator, pin));
    EXPECT_ERROR(STALE, cubeyard_unpin(allocator, pin), "taken off before");
    EXPECT(stat(allocator, "active_bytes.all.current") == 0);

    /* Destroying with live blocks is refused, and changes nothing. */
    cubeyard_block live = allocate(allocator, 5);
    EXPECT_ERROR(IN_USE, cubeyard_destroy(allocator), "1 blocks and 0 pins are live");
    EXPECT_OK(cubeyard_resolve(allocator, live, &info));
    EXPECT_OK(cubeyard_pin(allocator, live, &pin, NULL));
    EXPECT_OK(cubeyard_abandon(allocator));
    EXPECT_OK(cubeyard_destroy(NULL));
    EXPECT_OK(cubeyard_abandon(NULL));
}

static int refuse(void *user, const void *bytes, size_t length) {
    (void)user, (void)bytes, (void)length;
    return 1;
}

static void figures(void) {
    cubeyard_allocator *allocator = on_card("fallback_sizes:[16MiB]", CUBEYARD_MODE_PF, 8, 64 * MIB);
    int64_t value = -7;
    size_t length = 0, needed = 0;
    char small[8] = "before";
    EXPECT_ERROR(UNKNOWN_KEY, cubeyard_stat(allocator, "allocated.all", &value), "`allocated.all`");
    EXPECT(value == -7);
    EXPECT_ERROR(BUFFER, cubeyard_stats_json(allocator, NULL, 0, &needed), "are needed");
    EXPECT_ERROR(BUFFER, cubeyard_stats_json(allocator, small, sizeof small, NULL), "has 8");
    EXPECT(strcmp(small, "before") == 0);
    char *json = malloc(needed);
    EXPECT_ERROR(BUFFER, cubeyard_stats_json(allocator, json, needed - 1, &length), "are needed");
    EXPECT_OK(cubeyard_stats_json(allocator, json, needed, &length));
    EXPECT(length == needed && strlen(json) == needed - 1 && json[0] == '{');
    EXPECT(strstr(json, "\"reserved_bytes.all.peak\": 0") != NULL);
    free(json);
    EXPECT_ERROR(ARGUMENT, cubeyard_stats_json(allocator, NULL, 9, NULL), "`buffer` is NULL");
    EXPECT_ERROR(IO, cubeyard_snapshot_file(allocator, 0, "/no/such/folder"), "/no/such/folder");
    EXPECT_ERROR(IO, cubeyard_snapshot_write(allocator, 0, refuse, NULL), "function");
    EXPECT_ERROR(ARGUMENT, cubeyard_snapshot_write(allocator, 0, NULL, NULL), "`write` is NULL");
    EXPECT_ERROR(ARGUMENT, cubeyard_snapshot_write(allocator, 1u << 20, refuse, NULL), "65535");
    EXPECT_ERROR(ARGUMENT, cubeyard_on_pressure(allocator, NULL, NULL), "`callback` is NULL");
    EXPECT(strcmp(cubeyard_status_name(7), "CUBEYARD_ERROR_STALE") == 0);
    EXPECT(strcmp(cubeyard_status_name(99), "unknown") == 0);
    EXPECT_OK(cubeyard_destroy(allocator));
}

int main(void) {
    EXPECT(strcmp(cubeyard_last_error(), "") == 0);
    EXPECT(cubeyard_abi_version() == (CUBEYARD_VERSION_MAJOR << 16 | CUBEYARD_VERSION_MINOR));
    configurations();
    devices();
    requests();
    blocks();
    figures();
    printf("%d expectations hold\n", expectations);
    return 0;
}
