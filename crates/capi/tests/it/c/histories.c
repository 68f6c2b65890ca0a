/* Random histories of many configurations. A ledger keeps the owner of every granule, and the work of
 * every stream that may still access it; the device and the streams check every call against it.
 *
 *     histories COUNT OPERATIONS */
#include "expect.h"

enum {
    GRANULE = 128,
    REGION = 4 << 20, /* bytes of a region */
    PARTS = REGION / GRANULE,
    COMMIT = 64 << 10, /* granule of committed memory */
    REGIONS = 8,
    BLOCKS = 300,
    PINS = 3,
    STREAMS = 4,
    ROOM = -1 /* owner of a granule that a plan has reserved */
};

/* ---- Random numbers ------------------------------------------------------------------------------ */

static uint64_t state;

static uint64_t below(uint64_t limit) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state >> 33) % limit;
}

/* ---- The device and its streams, with the ledger ------------------------------------------------- */

typedef struct region {
    int live, reserved;
    int kind; /* kind of the blocks, if it has separate regions; else -1; -2 before the first */
    uint8_t committed[REGION / COMMIT];
    int32_t owner[PARTS];          /* number of the block plus one, ROOM or 0 */
    uint64_t uses[PARTS][STREAMS]; /* last work of each stream */
} region;

static region regions[REGIONS];
static uint64_t total, used;
static uint64_t submitted[STREAMS], done[STREAMS];
static int only = -1, several; /* the first stream of a request, and whether there was another one */
static int fails, works_for;   /* calls fail after `works_for` more of them */

static int works(void) { return !fails || works_for-- > 0; }

static int occupied(uint64_t id, uint64_t first, uint64_t end) {
    for (uint64_t part = first; part < end; part++)
        if (regions[id].owner[part] != 0)
            return 1;
    return 0;
}

/* Whether work that is not done may access a range: work of any stream but `own`, if that is one. */
static int accessed(uint64_t id, uint64_t first, uint64_t end, int own) {
    for (uint64_t part = first; part < end; part++)
        for (int stream = 0; stream < STREAMS; stream++)
            if (stream != own && regions[id].uses[part][stream] > done[stream])
                return 1;
    return 0;
}

/* Memory is taken away: no block lies there, and no stream accesses it. With one stream the device
 * orders the call after the work of the stream. */
static void take_away(uint64_t id, uint64_t offset, uint64_t size) {
    uint64_t first = offset / GRANULE, end = (offset + size) / GRANULE;
    EXPECT(id < REGIONS && regions[id].live);
    EXPECT(!occupied(id, first, end));
    EXPECT(!accessed(id, first, end, several ? -1 : only));
}

static int hand_out(uint64_t *id, int reserved) {
    for (uint64_t free = 0; free < REGIONS; free++) {
        if (regions[free].live)
            continue;
        memset(&regions[free], 0, sizeof(region));
        regions[free].live = 1;
        regions[free].reserved = reserved;
        regions[free].kind = -2;
        *id = free;
        return 1;
    }
    return 0;
}

static int acquire(void *user, uint64_t size, uint64_t *id) {
    (void)user;
    EXPECT(size == REGION);
    if (!works() || used + size > total || !hand_out(id, 0))
        return 0;
    used += size;
    return 1;
}
static int reserve(void *user, uint64_t size, uint64_t *id) {
    (void)user;
    EXPECT(size == REGION);
    return works() && hand_out(id, 1);
}
static int commit(void *user, uint64_t id, uint64_t offset, uint64_t size) {
    (void)user;
    EXPECT(size > 0 && offset % COMMIT == 0 && size % COMMIT == 0 && offset + size <= REGION);
    if (!works() || used + size > total)
        return 0;
    used += size;
    for (uint64_t part = offset / COMMIT; part < (offset + size) / COMMIT; part++) {
        EXPECT(!regions[id].committed[part]);
        regions[id].committed[part] = 1;
    }
    return 1;
}
static void decommit(void *user, uint64_t id, uint64_t offset, uint64_t size) {
    (void)user;
    take_away(id, offset, size);
    used -= size;
    for (uint64_t part = offset / COMMIT; part < (offset + size) / COMMIT; part++) {
        EXPECT(regions[id].committed[part]);
        regions[id].committed[part] = 0;
    }
}
static void release(void *user, uint64_t id, uint64_t size) {
    (void)user;
    EXPECT(size == REGION);
    take_away(id, 0, size);
    if (!regions[id].reserved)
        used -= size;
    for (int part = 0; part < REGION / COMMIT; part++)
        used -= regions[id].committed[part] ? COMMIT : 0;
    regions[id].live = 0;
}
static void info(void *user, uint64_t *free_bytes, uint64_t *total_bytes) {
    (void)user;
    *free_bytes = total - used;
    *total_bytes = total;
}

/* An event is its stream and the last work that was submitted before it. */
static uint64_t record(void *user, uint32_t stream) {
    (void)user;
    return (uint64_t)stream << 48 | submitted[stream];
}
static int is_complete(void *user, uint64_t event) {
    (void)user;
    return done[event >> 48] >= (event & ((UINT64_C(1) << 48) - 1));
}
static void wait_for(void *user, uint64_t event) {
    (void)user;
    if (!is_complete(NULL, event))
        done[event >> 48] = event & ((UINT64_C(1) << 48) - 1);
}

/* ---- Blocks -------------------------------------------------------------------------------------- */

typedef struct block {
    int live, freed, leaked, shared, launched;
    cubeyard_block name;
    cubeyard_address address;
    uint64_t size, requested, alignment;
    uint32_t kind, stream;
    uint64_t pins[PINS];
    int pinned;
} block;

static block blocks[BLOCKS];
static cubeyard_allocator *allocator;
static uint64_t count, bytes, placed, refused, moved, launches;
static int lag, has_streams, own_programs;
static uint64_t plan, planned;
static cubeyard_move moves[BLOCKS];
static int movers[BLOCKS]; /* block of every move */
static uint64_t serials[BLOCKS], mover_serials[BLOCKS], next_serial;
static uint64_t program, launch;
static int operand, launch_live;
static cubeyard_address program_address, corrections;

static void set_owner(cubeyard_address address, uint64_t size, int32_t owner) {
    for (uint64_t part = 0; part < size / GRANULE; part++)
        regions[address.region_id].owner[address.offset / GRANULE + part] = owner;
}

static void submit(cubeyard_address address, uint64_t size, uint32_t stream) {
    if (!has_streams)
        return;
    uint64_t work = ++submitted[stream];
    for (uint64_t part = 0; part < size / GRANULE; part++)
        regions[address.region_id].uses[address.offset / GRANULE + part][stream] = work;
    if (work > (uint64_t)lag && done[stream] < work - (uint64_t)lag)
        done[stream] = work - (uint64_t)lag;
}

/* Checks the place of a block or of reserved room, and enters its owner. */
static void settle(cubeyard_address at, uint64_t size, uint64_t alignment, uint32_t kind, int own,
                   int32_t owner) {
    EXPECT(at.region_id < REGIONS && regions[at.region_id].live);
    EXPECT(at.offset % GRANULE == 0 && at.offset % alignment == 0 && at.offset + size <= REGION);
    region *region = &regions[at.region_id];
    for (uint64_t part = at.offset / COMMIT; part * COMMIT < at.offset + size; part++)
        EXPECT(!region->reserved || region->committed[part]);
    uint64_t first = at.offset / GRANULE, end = first + size / GRANULE;
    EXPECT(!occupied(at.region_id, first, end));
    EXPECT(!accessed(at.region_id, first, end, own));
    int own_kind = own_programs && kind == CUBEYARD_PROGRAM ? CUBEYARD_PROGRAM : -1;
    EXPECT(region->kind == -2 || region->kind == own_kind);
    region->kind = own_kind;
    set_owner(at, size, owner);
}

static void see(uint32_t stream) {
    if (only < 0)
        only = (int)stream;
    several |= only != (int)stream;
}

static int is_full(cubeyard_status status) {
    return status == CUBEYARD_ERROR_FULL || status == CUBEYARD_ERROR_FRAGMENTED ||
           status == CUBEYARD_ERROR_TOO_BIG;
}

static void add(uint64_t size) {
    count++;
    bytes += size;
}

static void take_block(block *self) {
    cubeyard_request request = {0};
    request.size = below(40) ? 1 + below(UINT64_C(1) << (1 + below(17))) : 1 + below(3 * MIB);
    request.alignment = below(8) ? 0 : UINT64_C(1) << below(15);
    request.kind = below(8) ? CUBEYARD_TENSOR : CUBEYARD_PROGRAM;
    request.stream = has_streams ? (uint32_t)below(STREAMS) : 0;
    see(request.stream);
    memset(self, 0, sizeof *self);
    cubeyard_status status = cubeyard_allocate(allocator, &request, &self->name, &self->address);
    if (is_full(status)) {
        refused++;
        return;
    }
    EXPECT(status == CUBEYARD_OK);
    self->live = 1;
    self->requested = request.size;
    self->size = (request.size + GRANULE - 1) / GRANULE * GRANULE;
    self->alignment = request.alignment ? request.alignment : 1;
    self->kind = request.kind;
    self->stream = request.stream;
    settle(self->address, self->size, self->alignment, self->kind, (int)self->stream,
           (int32_t)(self - blocks) + 1);
    serials[self - blocks] = ++next_serial;
    add(self->size);
    placed++;
}

/* Ends a block in the ledger, before the allocator does. */
static void forget(block *self) {
    set_owner(self->address, self->size, 0);
    self->live = 0;
    count--;
    bytes -= self->size;
}

static void free_block(block *self) {
    if (self->freed)
        return;
    self->freed = 1;
    if (!self->pinned && !self->launched)
        forget(self);
    if (self->leaked) {
        EXPECT_OK(cubeyard_free_address(allocator, self->address));
        return;
    }
    EXPECT_OK(cubeyard_free(allocator, self->name));
    EXPECT_ERROR(STALE, cubeyard_free(allocator, self->name), "freed before");
}

static void pin(block *self) {
    if (self->freed || self->leaked || self->pinned == PINS)
        return;
    cubeyard_block_info known;
    EXPECT_OK(cubeyard_pin(allocator, self->name, &self->pins[self->pinned++], &known));
    EXPECT(known.address.offset == self->address.offset);
}

static void unpin(block *self) {
    if (!self->pinned)
        return;
    uint64_t pin = self->pins[--self->pinned];
    if (self->freed && !self->pinned && !self->launched)
        forget(self);
    EXPECT_OK(cubeyard_unpin(allocator, pin));
    EXPECT_ERROR(STALE, cubeyard_unpin(allocator, pin), "");
}

static void leak(block *self) {
    if (self->freed || self->leaked)
        return;
    cubeyard_address address;
    EXPECT_OK(cubeyard_leak(allocator, self->name, &address));
    EXPECT(address.region_id == self->address.region_id && address.offset == self->address.offset);
    self->leaked = 1;
}

static void use(block *self) {
    uint32_t stream = below(4) || !has_streams ? self->stream : (uint32_t)below(STREAMS);
    if (stream != self->stream) {
        if (self->freed || self->leaked)
            return;
        EXPECT_OK(cubeyard_record_stream(allocator, self->name, stream));
        self->shared = 1;
    }
    submit(self->address, self->size, stream);
}

/* ---- Compaction ---------------------------------------------------------------------------------- */

static int is_movable(const block *self) {
    return self->live && !self->freed && !self->leaked && !self->shared && !self->pinned &&
           !self->launched;
}

static void make_plan(void) {
    size_t found;
    EXPECT_OK(cubeyard_compact(allocator, &plan, &found));
    planned = found;
    EXPECT(planned <= BLOCKS);
    EXPECT_OK(cubeyard_plan_moves(allocator, plan, moves, BLOCKS, NULL));
    for (size_t i = 0; i < found; i++) {
        cubeyard_address from = moves[i].from;
        int32_t owner = regions[from.region_id].owner[from.offset / GRANULE];
        EXPECT(owner > 0);
        movers[i] = owner - 1;
        block *self = &blocks[movers[i]];
        EXPECT(is_movable(self) && self->requested == moves[i].size);
        EXPECT(self->address.offset == from.offset);
        mover_serials[i] = serials[movers[i]];
        settle(moves[i].to, self->size, self->alignment, self->kind, several ? -1 : only, ROOM);
    }
}

static uint64_t room(size_t i) { return (moves[i].size + GRANULE - 1) / GRANULE * GRANULE; }

static void carry_out(void) {
    size_t done_moves, expected = 0;
    for (size_t i = 0; i < planned; i++) {
        block *self = &blocks[movers[i]];
        if (serials[movers[i]] != mover_serials[i] || !is_movable(self)) {
            set_owner(moves[i].to, room(i), 0);
            continue;
        }
        /* The copy is work on the block's stream. */
        submit(moves[i].from, self->size, self->stream);
        submit(moves[i].to, self->size, self->stream);
        set_owner(moves[i].from, self->size, 0);
        set_owner(moves[i].to, self->size, movers[i] + 1);
        self->address = moves[i].to;
        expected++;
    }
    EXPECT_OK(cubeyard_plan_commit(allocator, plan, &done_moves));
    EXPECT(done_moves == expected);
    moved += expected;
    plan = 0;
}

static void drop_plan(void) {
    for (size_t i = 0; i < planned; i++)
        set_owner(moves[i].to, room(i), 0);
    EXPECT_OK(cubeyard_plan_drop(allocator, plan));
    plan = 0;
}

/* ---- Launches ------------------------------------------------------------------------------------ */

/* Begins a launch with one operand, whose program is unloaded at once and stays until the launch ends. */
static void begin_launch(void) {
    cubeyard_argument argument = {{0, 0}, 0, 0};
    cubeyard_launch_info known;
    block *self = &blocks[below(BLOCKS)];
    if (launch_live || !self->live || self->freed || self->leaked)
        return;
    see(0);
    cubeyard_address address;
    cubeyard_status status = cubeyard_program_load(allocator, 1000, 1, &program, &address);
    if (is_full(status))
        return;
    EXPECT(status == CUBEYARD_OK);
    argument.block = self->name;
    status = cubeyard_launch_begin(allocator, program, &argument, 1, &launch, &known);
    if (is_full(status)) {
        EXPECT_OK(cubeyard_program_unload(allocator, program));
        return;
    }
    EXPECT(status == CUBEYARD_OK);
    EXPECT(known.program.offset == address.offset && known.corrections_bytes == 16);
    settle(address, 1024, 1, CUBEYARD_PROGRAM, 0, ROOM);
    settle(known.corrections, GRANULE, 1, CUBEYARD_PROGRAM, 0, ROOM);
    corrections = known.corrections;
    program_address = address;
    add(1024);
    add(GRANULE);
    EXPECT_OK(cubeyard_program_unload(allocator, program));
    operand = (int)(self - blocks);
    self->launched = launch_live = 1;
    launches++;
}

static void end_launch(void) {
    if (!launch_live)
        return;
    block *self = &blocks[operand];
    self->launched = launch_live = 0;
    if (self->freed && !self->pinned)
        forget(self);
    set_owner(program_address, 1024, 0);
    set_owner(corrections, GRANULE, 0);
    count -= 2;
    bytes -= 1024 + GRANULE;
    EXPECT_OK(cubeyard_launch_end(allocator, launch));
    EXPECT_ERROR(STALE, cubeyard_launch_end(allocator, launch), "");
}

/* ---- Checks -------------------------------------------------------------------------------------- */

static uint64_t stat_of(const char *key) {
    int64_t value;
    EXPECT_OK(cubeyard_stat(allocator, key, &value));
    EXPECT(value >= 0);
    return (uint64_t)value;
}

static void check_figures(void) {
    uint64_t free_bytes, total_bytes;
    EXPECT(stat_of("allocation.all.current") == count);
    EXPECT(stat_of("allocated_bytes.all.current") == bytes);
    EXPECT(stat_of("reserved_bytes.all.current") == used);
    EXPECT(stat_of("active_bytes.all.current") >= bytes);
    EXPECT_OK(cubeyard_memory_info(allocator, &free_bytes, &total_bytes));
    EXPECT(free_bytes == total - used && total_bytes == total);
}

static int discard(void *user, const void *data, size_t length) {
    (void)user, (void)data, (void)length;
    return 0;
}

static void check_all(void) {
    cubeyard_block_info known;
    check_figures();
    for (block *self = blocks; self < blocks + BLOCKS; self++) {
        if (!self->live || self->freed || self->leaked)
            continue;
        EXPECT_OK(cubeyard_resolve(allocator, self->name, &known));
        EXPECT(known.address.region_id == self->address.region_id);
        EXPECT(known.address.offset == self->address.offset);
        EXPECT(known.size == self->size && known.requested == self->requested);
        EXPECT(known.kind == self->kind);
    }
    EXPECT_OK(cubeyard_snapshot_write(allocator, 0, discard, NULL));
}

/* ---- Histories ----------------------------------------------------------------------------------- */

static const char *one_of(const char *const *choices, uint64_t length) {
    return choices[below(length)];
}

/* Creates an allocator of a random configuration. */
static void create(uint64_t number) {
    static const char *const region_policies[] = {"load-balancing", "fill-first"};
    static const char *const block_policies[] = {"first-fit", "best-fit", "quick-fit", "lifetime"};
    static const char *const growths[] = {"fixed", "growable(4MiB)", "recycle(4MiB)"};
    static const char *const acquires[] = {"lazy", "first", "eager(2)"};
    static const char *const releases[] = {"never", "when_idle(0)", "when_idle(4MiB)"};
    static const char *const refusals[] = {"ask", "lock"};
    static const char *const histories[] = {"0", "0", "100"};
    char text[400];
    own_programs = below(3) == 0;
    snprintf(text, sizeof text,
             "fallback_sizes:[4MiB],max_regions:%d,region:%s,block:%s,growth:%s,acquire:%s,release:%s,"
             "refusal:%s,history:%s%s",
             (int)(1 + below(REGIONS)), region_policies[number % 2], block_policies[number / 2 % 4],
             growths[number / 8 % 3], one_of(acquires, 3), one_of(releases, 3), one_of(refusals, 2),
             one_of(histories, 3), own_programs ? ",own_regions:[program]" : "");
    cubeyard_config *config;
    cubeyard_device device = {0};
    cubeyard_events events = {0};
    EXPECT_OK(cubeyard_config_new(text, &config));
    static const int lags[] = {0, 1, 7, 50, 500};
    has_streams = below(4) > 0;
    lag = lags[below(5)];
    events.struct_size = sizeof events;
    events.record = record;
    events.is_complete = is_complete;
    events.wait = wait_for;
    if (has_streams)
        EXPECT_OK(cubeyard_config_events(config, &events));
    device.struct_size = sizeof device;
    device.mode = CUBEYARD_MODE_VF;
    device.granule = COMMIT;
    device.acquire = acquire;
    device.release = release;
    device.info = info;
    device.reserve = reserve;
    device.commit = commit;
    device.decommit = decommit;
    device.table_entries = REGIONS;
    total = (4 + below(28)) * MIB;
    EXPECT_OK(cubeyard_create_device(config, &device, &allocator));
    cubeyard_config_free(config);
}

static void step(uint64_t wanted) {
    block *self = &blocks[below(BLOCKS)];
    uint64_t draw = below(1000);
    if (draw < 600 && !self->live && (int)(self - blocks) < (int)wanted)
        take_block(self);
    else if (draw < 600 && self->live && ((uint64_t)(self - blocks) >= wanted || draw < 300))
        free_block(self);
    else if (draw < 600)
        return;
    else if (draw < 760 && self->live)
        use(self);
    else if (draw < 810)
        done[draw % STREAMS] = submitted[draw % STREAMS];
    else if (draw < 860 && self->live)
        pin(self);
    else if (draw < 930 && self->live)
        unpin(self);
    else if (draw < 940 && self->live)
        leak(self);
    else if (draw < 955)
        begin_launch();
    else if (draw < 970)
        end_launch();
    else if (draw < 980 && !plan)
        make_plan();
    else if (draw < 988 && plan)
        carry_out();
    else if (draw < 990 && plan)
        drop_plan();
    else if (draw < 993)
        EXPECT_OK(cubeyard_trim(allocator, NULL));
    else if (draw < 995)
        EXPECT_OK(cubeyard_synchronize(allocator));
    else if (draw < 997)
        EXPECT_OK(cubeyard_unlock_regions(allocator));
    else {
        fails = below(2) == 0;
        works_for = (int)below(4);
    }
}

/* Frees everything: the device then has all of its memory back. */
static void end(void) {
    fails = 0;
    if (plan)
        drop_plan();
    end_launch();
    for (block *self = blocks; self < blocks + BLOCKS; self++) {
        if (self->live)
            free_block(self);
        while (self->pinned)
            unpin(self);
        EXPECT(!self->live);
    }
    EXPECT_OK(cubeyard_synchronize(allocator));
    EXPECT_OK(cubeyard_trim(allocator, NULL));
    EXPECT(count == 0 && bytes == 0);
    check_figures();
    EXPECT(stat_of("active.all.current") == 0 && used == 0);
    EXPECT_OK(cubeyard_destroy(allocator));
    for (int i = 0; i < REGIONS; i++)
        EXPECT(!regions[i].live);
}

static void history(uint64_t number, uint64_t operations) {
    state = number + 1;
    memset(blocks, 0, sizeof blocks);
    memset(submitted, 0, sizeof submitted);
    memset(done, 0, sizeof done);
    only = -1;
    several = fails = 0;
    create(number);
    uint64_t wanted = 0;
    for (uint64_t operation = 0; operation < operations; operation++) {
        if (operation % 1000 == 0)
            wanted = 1 + below(BLOCKS);
        step(wanted);
        if (operation % 8 == 0)
            check_figures();
        if (operation % 500 == 499)
            check_all();
    }
    check_all();
    end();
}

int main(int argc, char **argv) {
    EXPECT(argc == 3);
    uint64_t histories = strtoull(argv[1], NULL, 10), operations = strtoull(argv[2], NULL, 10);
    for (uint64_t number = 0; number < histories; number++) {
        fprintf(stderr, "history %llu\n", (unsigned long long)number);
        history(number, operations);
    }
    EXPECT(placed > histories && refused > 0 && moved > 0 && launches > 0);
    fprintf(stderr, "%llu blocks placed, %llu requests refused, %llu blocks moved, %llu launches\n",
            (unsigned long long)placed, (unsigned long long)refused, (unsigned long long)moved,
            (unsigned long long)launches);
    printf("%llu histories of %llu operations agree with the ledger\n",
           (unsigned long long)histories, (unsigned long long)operations);
    return 0;
}
