/* What the execution of programs needs of an allocator: regions and segments, programs, launches with
 * corrections of their own, compaction of real memory, and several devices. */
#include "expect.h"

static uint64_t word(const uint8_t *bytes) {
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

static void regions_and_segments(void) {
    cubeyard_allocator *allocator = on_card("fallback_sizes:[16MiB]", CUBEYARD_MODE_VF, 2, 256 * MIB);
    cubeyard_region regions[2] = {{0}};
    cubeyard_segment segments[2] = {{0}};
    cubeyard_block_info info;
    size_t count = 99;
    int locked = 99;
    uint64_t physical, other;
    EXPECT_OK(cubeyard_regions(allocator, NULL, 0, &count));
    EXPECT(count == 0);
    cubeyard_block first = allocate(allocator, 10 * MIB);
    EXPECT_OK(cubeyard_regions_locked(allocator, &locked));
    EXPECT(locked == 0);
    cubeyard_block second = allocate(allocator, 10 * MIB);
    EXPECT_OK(cubeyard_regions_locked(allocator, &locked));
    EXPECT(locked == 1); /* the table has two entries */
    EXPECT_ERROR(BUFFER, cubeyard_regions(allocator, regions, 1, &count), "2 are needed in `regions`");
    EXPECT(count == 2 && regions[0].size == 0);
    EXPECT_OK(cubeyard_regions(allocator, regions, 2, NULL));
    EXPECT(regions[1].region_id == 1 && regions[1].size == 16 * MIB && regions[1].blocks == 1);
    EXPECT(regions[1].free_bytes == 6 * MIB && regions[1].largest == 6 * MIB);
    EXPECT_OK(cubeyard_segment_table(allocator, segments, 2, &count));
    EXPECT(count == 2 && segments[0].used && segments[1].region_id == 1);
    EXPECT(segments[1].base > segments[0].base && segments[1].size == 16 * MIB);
    EXPECT_ERROR(ARGUMENT, cubeyard_segment_table(allocator, NULL, 2, NULL), "`entries` is NULL");

    /* A VF region's id is an index; the card's table has the address behind it. */
    EXPECT_OK(cubeyard_resolve(allocator, second, &info));
    EXPECT(info.segment == 1 && info.flat == segments[1].base);
    EXPECT_OK(cubeyard_physical_address(allocator, info.address, &physical));
    info.address.offset += 4096;
    EXPECT_OK(cubeyard_physical_address(allocator, info.address, &other));
    EXPECT(other == physical + 4096 && physical >= 16 * MIB);
    info.address.region_id = 7;
    EXPECT_ERROR(FOREIGN, cubeyard_physical_address(allocator, info.address, &other), "no region");
    EXPECT_OK(cubeyard_free(allocator, first));
    EXPECT_OK(cubeyard_free(allocator, second));
    EXPECT_OK(cubeyard_destroy(allocator));
}

static void launches(void) {
    cubeyard_allocator *allocator = on_card("fallback_sizes:[16MiB]", CUBEYARD_MODE_VF, 2, 256 * MIB);
    uint64_t program, first, second;
    cubeyard_launch_info info, other;
    cubeyard_operand operands[2];
    cubeyard_segment segments[2];
    cubeyard_block_info place;
    uint8_t bytes[32];
    size_t count;
    int locked;
    EXPECT_ERROR(ARGUMENT, cubeyard_program_load(allocator, 0, 2, &program, NULL), "zero bytes");
    EXPECT_OK(cubeyard_program_load(allocator, 5000, 2, &program, NULL));
    EXPECT_OK(cubeyard_program_resolve(allocator, program, &place));
    EXPECT(place.kind == CUBEYARD_PROGRAM && place.requested == 5000);
    cubeyard_block a = allocate(allocator, MIB), b = allocate(allocator, 4 * MIB);
    cubeyard_argument arguments[3] = {{a, 0, 0}, {b, MIB, 2 * MIB}, {a, 0, 0}};

    EXPECT_ERROR(ARGUMENT, cubeyard_launch_begin(allocator, program, arguments, 1, &first, NULL),
                 "takes 2 operands, and 1 was given");
    EXPECT_ERROR(ARGUMENT, cubeyard_launch_begin(allocator, program, arguments, 3, &first, NULL),
                 "3 were given");
    EXPECT_ERROR(ARGUMENT, cubeyard_launch_begin(allocator, program, NULL, 2, &first, NULL), "NULL");
    EXPECT_ERROR(STALE, cubeyard_launch_begin(allocator, 0, arguments, 2, &first, NULL), "no such program");
    arguments[1].size = 4 * MIB;
    EXPECT_ERROR(ARGUMENT, cubeyard_launch_begin(allocator, program, arguments, 2, &first, NULL),
                 "operand 1: 4.00 MiB from offset 1.00 MiB is not a part of a block of 4.00 MiB");
    arguments[1].size = 2 * MIB;
    EXPECT_OK(cubeyard_launch_begin(allocator, program, arguments, 2, &first, &info));
    arguments[1].offset = 2 * MIB;
    arguments[1].size = 0; /* all from there on */
    EXPECT_OK(cubeyard_launch_begin(allocator, program, arguments, 2, &second, &other));

    /* Each has corrections of its own, which name its own operands. */
    EXPECT(info.corrections_bytes == 32 && other.corrections_bytes == 32);
    EXPECT(info.corrections.offset != other.corrections.offset);
    EXPECT(info.program.offset == place.address.offset && other.program.offset == info.program.offset);
    EXPECT_OK(cubeyard_launch_operands(allocator, first, operands, 2, &count));
    EXPECT(count == 2 && operands[1].size == 2 * MIB);
    EXPECT_OK(cubeyard_resolve(allocator, b, &place));
    EXPECT(operands[1].flat == place.flat + MIB && operands[1].segment == place.segment);
    EXPECT_ERROR(BUFFER, cubeyard_launch_corrections(allocator, first, bytes, 31, &count), "32");
    EXPECT_OK(cubeyard_launch_corrections(allocator, first, bytes, sizeof bytes, &count));
    EXPECT(count == 32 && word(bytes) == operands[0].flat && word(bytes + 24) == 2 * MIB);
    EXPECT_OK(cubeyard_launch_corrections(allocator, second, bytes, sizeof bytes, NULL));
    EXPECT(word(bytes + 16) == place.flat + 2 * MIB && word(bytes + 24) == 2 * MIB);

    /* What a launch uses stays; entries that it knows are not another region's. */
    cubeyard_block more = allocate(allocator, 12 * MIB);
    uint64_t third;
    EXPECT_OK(cubeyard_launch_begin(allocator, program, arguments, 2, &third, NULL));
    EXPECT_OK(cubeyard_free(allocator, a));
    EXPECT_OK(cubeyard_free(allocator, b));
    EXPECT_OK(cubeyard_program_unload(allocator, program));
    EXPECT_ERROR(STALE, cubeyard_program_unload(allocator, program), "taken off before");
    EXPECT_OK(cubeyard_free(allocator, more));
    EXPECT_OK(cubeyard_launch_end(allocator, first));
    EXPECT_OK(cubeyard_launch_end(allocator, second));
    EXPECT_ERROR(IN_USE, cubeyard_destroy(allocator), "blocks");
    EXPECT_OK(cubeyard_launch_segment_table(allocator, third, segments, 2, &count));
    EXPECT(count == 2 && segments[0].used && segments[1].used);
    EXPECT_OK(cubeyard_launch_operands(allocator, third, operands, 2, NULL));
    EXPECT(operands[1].flat == place.flat + 2 * MIB);
    EXPECT_OK(cubeyard_launch_end(allocator, third));
    EXPECT_ERROR(STALE, cubeyard_launch_end(allocator, third), "no such launch");
    EXPECT_OK(cubeyard_trim(allocator, NULL));
    EXPECT_OK(cubeyard_regions_locked(allocator, &locked));
    EXPECT(locked == 0);
    EXPECT_OK(cubeyard_destroy(allocator));
}

static char *pointer(cubeyard_address address) {
    return (char *)(uintptr_t)(address.region_id + address.offset);
}

static void compaction(void) {
    cubeyard_allocator *allocator;
    cubeyard_config *config;
    EXPECT_OK(cubeyard_config_new("fallback_sizes:[16MiB]", &config));
    EXPECT_OK(cubeyard_create_host(config, 16 * MIB, &allocator));
    cubeyard_config_free(config);
    cubeyard_block low = allocate(allocator, MIB), next = allocate(allocator, MIB);
    cubeyard_block moving = allocate(allocator, MIB), leaked = allocate(allocator, MIB);
    cubeyard_address address, stays;
    cubeyard_block_info info;
    cubeyard_move moves[4];
    uint64_t plan, pin;
    size_t count, moved;
    EXPECT_OK(cubeyard_leak(allocator, leaked, &stays));
    EXPECT_ERROR(ARGUMENT, cubeyard_leak(allocator, low, NULL), "`address` is NULL");
    EXPECT_ERROR(STALE, cubeyard_leak(allocator, (cubeyard_block){0, 0}, &address), "freed before");
    EXPECT_OK(cubeyard_resolve(allocator, moving, &info));
    address = info.address;
    strcpy(pointer(address), "moving");
    strcpy(pointer(stays), "staying");
    EXPECT_OK(cubeyard_pin(allocator, next, &pin, NULL));
    EXPECT_OK(cubeyard_free(allocator, low));

    /* A plan that is dropped has done nothing. */
    EXPECT_OK(cubeyard_compact(allocator, &plan, &count));
    EXPECT(count == 1);
    EXPECT_OK(cubeyard_plan_drop(allocator, plan));
    EXPECT_ERROR(STALE, cubeyard_plan_commit(allocator, plan, NULL), "no such plan");

    EXPECT_OK(cubeyard_compact(allocator, &plan, NULL));
    EXPECT_OK(cubeyard_plan_moves(allocator, plan, moves, 4, &count));
    EXPECT(count == 1 && moves[0].from.offset == address.offset && moves[0].to.offset == 0);
    memcpy(pointer(moves[0].to), pointer(moves[0].from), moves[0].size);
    EXPECT_OK(cubeyard_plan_commit(allocator, plan, &moved));
    EXPECT(moved == 1);
    EXPECT_OK(cubeyard_resolve(allocator, moving, &info));
    EXPECT(info.address.offset == 0 && strcmp(pointer(info.address), "moving") == 0);
    EXPECT(strcmp(pointer(stays), "staying") == 0);
    EXPECT_OK(cubeyard_unpin(allocator, pin));
    EXPECT_OK(cubeyard_free(allocator, next));
    EXPECT_OK(cubeyard_free(allocator, moving));
    EXPECT_OK(cubeyard_free_address(allocator, stays));
    EXPECT_OK(cubeyard_destroy(allocator));
}

static void registries(void) {
    cubeyard_registry *registry;
    cubeyard_allocator *first = on_card("fallback_sizes:[16MiB]", CUBEYARD_MODE_VF, 8, 256 * MIB), *found = NULL;
    cubeyard_allocator *second = on_card("fallback_sizes:[16MiB]", CUBEYARD_MODE_VF, 8, 256 * MIB);
    uint32_t devices[2] = {99, 99};
    size_t count;
    EXPECT_OK(cubeyard_registry_new(&registry));
    EXPECT_OK(cubeyard_registry_add(registry, 7, first));
    EXPECT_OK(cubeyard_registry_add(registry, 3, second));
    EXPECT_ERROR(IN_USE, cubeyard_registry_add(registry, 7, second), "device 7 already has an allocator");
    EXPECT_OK(cubeyard_registry_devices(registry, devices, 2, &count));
    EXPECT(count == 2 && devices[0] == 3 && devices[1] == 7);
    EXPECT_OK(cubeyard_registry_get(registry, 7, &found));
    EXPECT(found == first);
    EXPECT_ERROR(UNKNOWN_KEY, cubeyard_registry_get(registry, 0, &found), "device 0 is not in");
    EXPECT_ERROR(IN_USE, cubeyard_destroy(first), "in 1 registries");
    EXPECT_ERROR(IN_USE, cubeyard_abandon(first), "in 1 registries");
    EXPECT_OK(cubeyard_registry_remove(registry, 7));
    EXPECT_ERROR(UNKNOWN_KEY, cubeyard_registry_remove(registry, 7), "device 7 is not in");
    EXPECT_OK(cubeyard_destroy(first));
    EXPECT_OK(cubeyard_registry_free(registry));
    EXPECT_OK(cubeyard_registry_free(NULL));
    EXPECT_OK(cubeyard_destroy(second));
}

/* A device of the program's with a table of its own. */
static int acquire(void *user, uint64_t size, uint64_t *id) {
    (void)size;
    *id = (*(uint64_t *)user)++;
    return 1;
}
static void release(void *user, uint64_t id, uint64_t size) { (void)user, (void)id, (void)size; }
static void info(void *user, uint64_t *free_bytes, uint64_t *total_bytes) {
    (void)user;
    *free_bytes = *total_bytes = 256 * MIB;
}
static int physical(void *user, uint64_t id, uint64_t *address) {
    (void)user;
    *address = (id + 1) << 40;
    return 1;
}

static void a_table_of_ones_own(void) {
    uint64_t next = 0, where;
    cubeyard_device device = {0};
    cubeyard_allocator *allocator;
    cubeyard_config *config;
    cubeyard_address address = {0, 64};
    cubeyard_request request = {.size = 16 * MIB};
    cubeyard_block a, b, c;
    size_t count;
    device.struct_size = offsetof(cubeyard_device, table_entries); /* as in version 1.0 */
    device.mode = CUBEYARD_MODE_VF;
    device.user = &next;
    device.acquire = acquire;
    device.release = release;
    device.info = info;
    device.table_entries = 2;
    device.physical = physical;
    EXPECT_OK(cubeyard_config_new("fallback_sizes:[16MiB]", &config));
    EXPECT_OK(cubeyard_create_device(config, &device, &allocator));
    a = allocate(allocator, MIB);
    EXPECT_ERROR(BUFFER, cubeyard_segment_table(allocator, NULL, 0, &count), "64 are needed");
    EXPECT_ERROR(UNSUPPORTED, cubeyard_physical_address(allocator, address, &where), "does not know");
    EXPECT_OK(cubeyard_free(allocator, a));
    EXPECT_OK(cubeyard_destroy(allocator));

    device.struct_size = sizeof device;
    next = 0;
    EXPECT_OK(cubeyard_create_device(config, &device, &allocator));
    cubeyard_config_free(config);
    EXPECT_OK(cubeyard_allocate(allocator, &request, &a, NULL));
    EXPECT_OK(cubeyard_allocate(allocator, &request, &b, NULL));
    EXPECT_ERROR(FULL, cubeyard_allocate(allocator, &request, &c, NULL), "table has 2 entries");
    EXPECT_OK(cubeyard_physical_address(allocator, address, &where));
    EXPECT(where == (UINT64_C(1) << 40) + 64);
    EXPECT_OK(cubeyard_free(allocator, a));
    EXPECT_OK(cubeyard_free(allocator, b));
    EXPECT_OK(cubeyard_destroy(allocator));
}

int main(void) {
    regions_and_segments();
    launches();
    compaction();
    registries();
    a_table_of_ones_own();
    printf("%d expectations hold\n", expectations);
    return 0;
}
