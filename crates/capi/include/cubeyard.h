/*
 * Cubeyard for C: an allocator for accelerator memory.
 *
 * An allocator acquires a few large regions from a device and carves blocks out of them. The device is
 * a simulated card, memory of this process, or a set of your own functions (cubeyard_device). A block
 * is named by a cubeyard_block, which is two numbers that can be copied freely. A freed block is
 * recognised by them, even after its place was reused.
 *
 *     cubeyard_card card = {CUBEYARD_MODE_VF, 8, UINT64_C(32) << 30};
 *     cubeyard_request request = {.size = 4096};
 *     cubeyard_allocator *allocator;
 *     cubeyard_block block;
 *     cubeyard_address address;
 *     if (cubeyard_create_card(NULL, &card, &allocator) != CUBEYARD_OK ||
 *         cubeyard_allocate(allocator, &request, &block, &address) != CUBEYARD_OK)
 *         fprintf(stderr, "%s\n", cubeyard_last_error());
 *
 * examples/embed.c is a complete program.
 *
 * Errors. Every function that can fail returns a cubeyard_status. On failure nothing has changed,
 * outputs are untouched, and cubeyard_last_error() returns the reason as text.
 *
 * Threads. Every function may be called on any thread at any time, even for the same allocator and
 * block, with two exceptions: a cubeyard_config belongs to one thread at a time, and no other call on an
 * allocator may be in progress when it is destroyed. Callbacks are called on the thread that made the
 * call, possibly on several threads at the same time. No lock is held, so they may call back. A callback
 * must return: no longjmp, no C++ exception.
 *
 * Calling back. A pressure callback may call every function except cubeyard_destroy and
 * cubeyard_abandon of its allocator (CUBEYARD_ERROR_REENTRANT). A request made by a pressure callback
 * calls no pressure callback. Functions of a device and of streams may free, pin, resolve and inspect.
 * They may also allocate if there is room. Operations that would have to call the device or the streams
 * again (an allocation that needs a region, cubeyard_trim, cubeyard_destroy, cubeyard_abandon) are
 * refused with CUBEYARD_ERROR_REENTRANT. These functions must not wait for another thread that makes
 * such a call.
 *
 * Forks. A child process has none of its parent's threads, so a lock may stay locked forever, and the
 * parent keeps using the device. In a child, every function refuses an allocator or a registry that was
 * created before the fork, with CUBEYARD_ERROR_FORKED and without waiting. An allocator that the child
 * creates works. The child cannot destroy an allocator of its parent, and need not.
 *
 * Pointers. A pointer that may be NULL is documented as such. NULL elsewhere, or a pointer that is not
 * aligned for its type, is refused with CUBEYARD_ERROR_ARGUMENT; other invalid pointers are not
 * detected. Strings are UTF-8 and NUL-terminated. No pointer is kept after the call, except `user`
 * pointers and functions.
 *
 * Versions. A new minor version adds functions and constants; a new major version may remove or change
 * them. Structs that may grow begin with `struct_size`; set it to sizeof the struct.
 */
#ifndef CUBEYARD_H
#define CUBEYARD_H

#include <stddef.h>
#include <stdint.h>

#define CUBEYARD_VERSION_MAJOR 1
#define CUBEYARD_VERSION_MINOR 3

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Results ---------------------------------------------------------------------------------- */

typedef int32_t cubeyard_status;

enum {
    /* Success. */
    CUBEYARD_OK = 0,
    /* An argument is invalid: NULL, not aligned, not UTF-8, an unknown constant, a size of zero, or an
     * alignment that is not a power of two. A bug in the calling program; correct it. */
    CUBEYARD_ERROR_ARGUMENT = 1,
    /* A configuration, in a string or in the environment, is invalid. The message names the key and the
     * expected value; report it to the author of the configuration. */
    CUBEYARD_ERROR_CONFIG = 2,
    /* The device does not support the configuration, for example growable regions. Use another
     * configuration. */
    CUBEYARD_ERROR_UNSUPPORTED = 3,
    /* Out of memory: the request exceeds the free memory. Free some memory and try again. */
    CUBEYARD_ERROR_FULL = 4,
    /* Out of memory: enough is free, but not contiguously. Free some memory and try again, or use
     * another policy. */
    CUBEYARD_ERROR_FRAGMENTED = 5,
    /* Out of memory: no region can ever hold the request. Waiting does not help; request less or
     * configure larger regions. */
    CUBEYARD_ERROR_TOO_BIG = 6,
    /* The block was freed before. A bug in the calling program (a double free or a use after free),
     * which did no harm. */
    CUBEYARD_ERROR_STALE = 7,
    /* The address or block does not belong to this allocator. It belongs to another allocator, or its
     * region was released. */
    CUBEYARD_ERROR_FOREIGN = 8,
    /* The address is in a region, but no live block starts there: the block was freed before, or the
     * address points into a block. */
    CUBEYARD_ERROR_NOT_LIVE = 9,
    /* Blocks or pins are still live: free them, or use cubeyard_abandon. Or the allocator is in a
     * registry: remove it. Or the registry already has an allocator for the device. */
    CUBEYARD_ERROR_IN_USE = 10,
    /* There is no statistic of this name, or no device of this number. */
    CUBEYARD_ERROR_UNKNOWN_KEY = 11,
    /* The buffer is too short. The required length was written; try again with that length. */
    CUBEYARD_ERROR_BUFFER = 12,
    /* A file operation, or the function that receives the bytes, failed. */
    CUBEYARD_ERROR_IO = 13,
    /* A bug in Cubeyard. Please report it with the message. The allocator may be used to free and
     * inspect, but should be replaced. */
    CUBEYARD_ERROR_INTERNAL = 14,
    /* The call was made from a device, stream or pressure function that the allocator is calling on
     * this thread. It would have to call them again, or destroy the allocator during the call. Make the
     * call after that function has returned. */
    CUBEYARD_ERROR_REENTRANT = 15,
    /* The allocator or the registry was created before a fork, and this is the child. Create another. */
    CUBEYARD_ERROR_FORKED = 16,
    /* Since 1.2. The device has returned a region that it had already provided and that was not
     * released. The second one is ignored and never released. Correct the device. */
    CUBEYARD_ERROR_DEVICE = 17,
    /* Since 1.3. The hard budget of the request's tag refuses it. Free blocks of the tag, or raise the
     * budget; the message names both. */
    CUBEYARD_ERROR_BUDGET = 18,
    /* Since 1.3. A block cannot grow in place: the range behind it is taken. Allocate another block and
     * copy. */
    CUBEYARD_ERROR_NO_ROOM = 19,
    /* Since 1.3. The block is paused and has no memory. Resume its pool or tag first. */
    CUBEYARD_ERROR_PAUSED = 20
};

/* Version of the loaded library: the major version in the upper 16 bits, the minor version in the
 * lower. It is compatible with this header if the major version is the same and the minor version is
 * not lower. */
uint32_t cubeyard_abi_version(void);

/* Message of the last call that failed on this thread; "" if none has. After an out-of-memory error
 * this is the whole report. Valid until the next call on this thread fails. */
const char *cubeyard_last_error(void);

/* Name of a status constant, such as "CUBEYARD_ERROR_STALE"; "unknown" for any other value. */
const char *cubeyard_status_name(cubeyard_status status);

/* ---- Configuration ---------------------------------------------------------------------------- */

/* Configuration of an allocator. */
typedef struct cubeyard_config cubeyard_config;

/* Meaning of a device's region ids. */
enum {
    /* The mode of the configuration: FLEX_DEVICE if it was read from the environment, else PF. */
    CUBEYARD_MODE_CONFIGURED = 0,
    /* Physical function: the id is the region's physical address. */
    CUBEYARD_MODE_PF = 1,
    /* Virtual function: the id is an index into the firmware's table. */
    CUBEYARD_MODE_VF = 2
};

/* Creates a configuration from `text`, "key:value,key:value,..."; NULL and "" give the default. For
 * example "fallback_sizes:[8GiB;2GiB],block:best-fit,history:10000". Since 1.2: "preset:NAME" starts
 * from a named configuration, which the other keys change: rfc, grow or card. */
cubeyard_status cubeyard_config_new(const char *text, cubeyard_config **config);

/* Creates a configuration from the environment. Only this function reads it.
 *
 *   CUBEYARD_ALLOC_CONF        the text of cubeyard_config_new
 *   FLEX_DEVICE                PF or VF
 *   CUBEYARD_ALLOC_DEBUG, TORCH_SPYRE_ALLOC_DEBUG, TORCH_SPYRE_DEBUG
 *                              any of them, not empty and not 0: every step is logged to standard
 *                              error, unless the program already has its own log (`tracing`)
 */
cubeyard_status cubeyard_config_from_env(cubeyard_config **config);

/* Sets one key. The key "preset" replaces all others, so set it first. */
cubeyard_status cubeyard_config_set(cubeyard_config *config, const char *key, const char *value);

/* Returns CUBEYARD_MODE_PF or CUBEYARD_MODE_VF, as given by FLEX_DEVICE, for callers that create the
 * device themselves. */
cubeyard_status cubeyard_config_mode(const cubeyard_config *config, uint32_t *mode);

/* Events on a device's streams. A block that several streams use is free only when each of them has
 * passed the point at which it was freed. Without streams every free is immediate. */
typedef struct cubeyard_events {
    size_t struct_size;
    void *user;
    /* Records an event at the current end of `stream`, and returns its id. */
    uint64_t (*record)(void *user, uint32_t stream);
    /* Returns nonzero if the stream has passed the event. Events of one stream are passed in order. */
    int (*is_complete)(void *user, uint64_t event);
    /* Waits until the stream has passed the event. */
    void (*wait)(void *user, uint64_t event);
} cubeyard_events;

/* Sets the streams of the allocators that are created from `config`. */
cubeyard_status cubeyard_config_events(cubeyard_config *config, const cubeyard_events *events);

/* Frees a configuration; the allocators created from it do not need it. NULL is ignored. */
void cubeyard_config_free(cubeyard_config *config);

/* ---- Allocators ------------------------------------------------------------------------------- */

typedef struct cubeyard_allocator cubeyard_allocator;

/* A simulated card, which counts memory but stores none. */
typedef struct cubeyard_card {
    uint32_t mode;          /* CUBEYARD_MODE_... */
    uint32_t table_entries; /* of the firmware's table; used with VF, 8 to 16 on real cards */
    uint64_t bytes;         /* memory of the card */
} cubeyard_card;

/* A device implemented by your functions. The first three functions are required, the others only for
 * growable regions. The allocator never calls two of acquire, reserve and release at the same time, nor
 * two of commit and decommit for one region. */
typedef struct cubeyard_device {
    size_t struct_size;
    uint32_t mode; /* CUBEYARD_MODE_... */
    /* The granule of commit, a power of two; 0 for a device that cannot commit. */
    uint64_t granule;
    void *user;
    /* Acquires `size` bytes of memory: writes the region's id, which differs from the id of every other
     * live region, and returns nonzero. Returns 0 if there is not enough memory. */
    int (*acquire)(void *user, uint64_t size, uint64_t *region_id);
    /* Releases a region, with all memory committed to it. */
    void (*release)(void *user, uint64_t region_id, uint64_t size);
    /* Writes the free and the total memory of the device. */
    void (*info)(void *user, uint64_t *free_bytes, uint64_t *total_bytes);
    /* Like acquire, but reserves `size` bytes of addresses without memory. */
    int (*reserve)(void *user, uint64_t size, uint64_t *region_id);
    /* Commits memory to a part of a reserved region. Returns 0 if there is not enough memory; then
     * nothing has changed. */
    int (*commit)(void *user, uint64_t region_id, uint64_t offset, uint64_t size);
    /* Decommits a part of a reserved region. */
    void (*decommit)(void *user, uint64_t region_id, uint64_t offset, uint64_t size);
    /* Since 1.1. Number of entries of the firmware's table, which limits the number of live regions and
     * is the length of the segment table; 0 for a device without a table. */
    uint64_t table_entries;
    /* Since 1.1. Writes the physical address of a region's start and returns nonzero; returns 0 if it
     * is unknown. If the function is NULL, the address is the region's id with PF, and unknown with VF. */
    int (*physical)(void *user, uint64_t region_id, uint64_t *address);
    /* Since 1.3. Writes a handle with which another process or API can open a part of a region, its
     * length (at most `capacity`, which is CUBEYARD_EXPORT_MAX), and the offset of the part in the memory
     * that the handle names. Returns nonzero, or 0 if the device has none. NULL for a device that cannot
     * export. It may run at the same time as every other function. */
    int (*export_handle)(void *user, uint64_t region_id, uint64_t offset, uint64_t size, uint8_t *handle,
                         size_t capacity, size_t *length, uint64_t *handle_offset);
} cubeyard_device;

/* Since 1.3. Maximum length of an export handle in bytes. */
#define CUBEYARD_EXPORT_MAX 256

/* Creates an allocator over a simulated card. `config` may be NULL for the default, here and below. */
cubeyard_status cubeyard_create_card(const cubeyard_config *config, const cubeyard_card *card,
                                     cubeyard_allocator **allocator);

/* Creates an allocator over at most `limit` bytes of this process's own memory: region_id + offset is a
 * pointer. */
cubeyard_status cubeyard_create_host(const cubeyard_config *config, uint64_t limit,
                                     cubeyard_allocator **allocator);

/* Creates an allocator over a device of yours. The device's functions and `user` must stay valid until
 * the allocator is gone. */
cubeyard_status cubeyard_create_device(const cubeyard_config *config, const cubeyard_device *device,
                                       cubeyard_allocator **allocator);

/* Destroys an allocator: waits for the streams that freed blocks wait for, and releases all regions.
 * While a block is live or pinned (programs, launches and plans have blocks too), or the allocator is
 * in a registry, the call is refused with CUBEYARD_ERROR_IN_USE and changes nothing. NULL is ignored. */
cubeyard_status cubeyard_destroy(cubeyard_allocator *allocator);

/* Destroys an allocator even if blocks are live. Afterwards no address from it may be used on the
 * device, since the regions are released. For a program that must exit quickly. Like cubeyard_destroy,
 * it is refused while the allocator is in a registry. NULL is ignored. */
cubeyard_status cubeyard_abandon(cubeyard_allocator *allocator);

/* ---- Blocks ----------------------------------------------------------------------------------- */

/* Name of a block of one allocator; another allocator refuses it. All zeros names no block. */
typedef struct cubeyard_block {
    uint64_t slot;
    uint64_t key;
} cubeyard_block;

/* An address in device memory. */
typedef struct cubeyard_address {
    uint64_t region_id;
    uint64_t offset;
} cubeyard_address;

/* Purpose of a block. A kind can have separate regions (`own_regions`). */
enum { CUBEYARD_TENSOR = 0, CUBEYARD_PROGRAM = 1, CUBEYARD_STAGING = 2 };

/* A request for a block. All fields except the size may be 0. */
typedef struct cubeyard_request {
    uint64_t size;      /* in bytes */
    uint64_t alignment; /* a power of two, or 0 for the configured alignment */
    uint32_t kind;      /* CUBEYARD_TENSOR, ... */
    uint32_t stream;    /* the stream that will use the block */
    uint32_t site;      /* number of the call site in the program; 0 if unknown */
    uint32_t reserved;  /* 0 */
} cubeyard_request;

/* Properties of a block. */
typedef struct cubeyard_block_info {
    cubeyard_address address;
    uint64_t flat;      /* address in the flat address space of programs and snapshots */
    uint64_t size;      /* rounded to the configuration's alignment */
    uint64_t requested; /* number of bytes requested */
    uint32_t segment;   /* the region's place in the segment table */
    uint32_t kind;      /* CUBEYARD_TENSOR, ... */
} cubeyard_block_info;

/* Allocates a block. `address` may be NULL. */
cubeyard_status cubeyard_allocate(cubeyard_allocator *allocator, const cubeyard_request *request,
                                  cubeyard_block *block, cubeyard_address *address);

/* Frees a block. CUBEYARD_ERROR_STALE if it was freed before. */
cubeyard_status cubeyard_free(cubeyard_allocator *allocator, cubeyard_block block);

/* Gives up the block's name. From then on the block is known only by its address
 * (cubeyard_free_address): `block` is stale, and compaction leaves the block in place. */
cubeyard_status cubeyard_leak(cubeyard_allocator *allocator, cubeyard_block block,
                              cubeyard_address *address);

/* Frees the block that starts at an address. An address can only be checked for being live: if the
 * block was freed and another one was placed there, this frees the other one. */
cubeyard_status cubeyard_free_address(cubeyard_allocator *allocator, cubeyard_address address);

/* Returns the properties and the current address of a block. */
cubeyard_status cubeyard_resolve(cubeyard_allocator *allocator, cubeyard_block block,
                                 cubeyard_block_info *info);

/* Keeps a block in place, and its memory in use even if it is freed, until `pin` is removed: as long as
 * a launch uses it. `info`, which may be NULL, receives its properties and address. A block can be
 * pinned several times. */
cubeyard_status cubeyard_pin(cubeyard_allocator *allocator, cubeyard_block block, uint64_t *pin,
                             cubeyard_block_info *info);

/* Removes a pin. CUBEYARD_ERROR_STALE if it was removed before. */
cubeyard_status cubeyard_unpin(cubeyard_allocator *allocator, uint64_t pin);

/* Since 1.3. Changes the requested size of a block in place; its address and contents stay. A block grows
 * into the range directly behind it (CUBEYARD_ERROR_NO_ROOM if that is taken). The end of a block that
 * becomes shorter is freed; a pinned block cannot become shorter (CUBEYARD_ERROR_IN_USE). */
cubeyard_status cubeyard_resize(cubeyard_allocator *allocator, cubeyard_block block, uint64_t size);

/* Since 1.3. Asks the device for a handle with which another process or API can open a block's memory.
 * `export_number` receives the export's number. Until cubeyard_export_end, the block stays in place and
 * live, even if it is freed. CUBEYARD_ERROR_UNSUPPORTED if the device cannot export it. */
cubeyard_status cubeyard_export_begin(cubeyard_allocator *allocator, cubeyard_block block,
                                      uint64_t *export_number);

/* Since 1.3. Returns the handle of an export, and the offset of the block in the memory that it names.
 * `length` and `offset` may be NULL. */
cubeyard_status cubeyard_export_handle(cubeyard_allocator *allocator, uint64_t export_number,
                                       uint8_t *handle, size_t capacity, size_t *length,
                                       uint64_t *offset);

/* Since 1.3. Ends an export. CUBEYARD_ERROR_STALE if it has already ended. */
cubeyard_status cubeyard_export_end(cubeyard_allocator *allocator, uint64_t export_number);

/* Records that `stream` uses the block as well. */
cubeyard_status cubeyard_record_stream(cubeyard_allocator *allocator, cubeyard_block block,
                                       uint32_t stream);

/* ---- Regions and segments ---------------------------------------------------------------------

 * Functions that write a list take room for `capacity` elements and write the number of elements to
 * `count`, which may be NULL. If the elements do not fit, only `count` is written, with
 * CUBEYARD_ERROR_BUFFER. The list may be NULL if `capacity` is 0. */

/* A region. */
typedef struct cubeyard_region {
    uint64_t region_id;
    uint64_t size;       /* memory: acquired, or committed in a growable region */
    uint64_t free_bytes; /* free bytes of the memory */
    uint64_t largest;    /* the longest free range */
    uint64_t blocks;     /* number of live blocks */
} cubeyard_region;

/* Returns all regions, oldest first. */
cubeyard_status cubeyard_regions(cubeyard_allocator *allocator, cubeyard_region *regions,
                                 size_t capacity, size_t *count);

/* Sets `locked` to nonzero if no more regions are acquired: the device has refused all sizes, or the
 * number of regions has reached `max_regions` or the size of the segment table. cubeyard_trim can
 * change that. After a refusal, a request that finds no room still asks the device, unless the
 * configuration has "refusal:lock". */
cubeyard_status cubeyard_regions_locked(cubeyard_allocator *allocator, int *locked);

/* An entry of the segment table. */
typedef struct cubeyard_segment {
    uint64_t used;      /* 0 for an entry without a region; the other fields are then 0 */
    uint64_t region_id;
    uint64_t base;      /* the region's first flat address */
    uint64_t size;
} cubeyard_segment;

/* Returns the segment table. It has the number of entries of the firmware's table, or 64. The entry of
 * a released region is reused only when every launch that holds it has ended. */
cubeyard_status cubeyard_segment_table(cubeyard_allocator *allocator, cubeyard_segment *entries,
                                       size_t capacity, size_t *count);

/* Returns the physical address of an address in a region of this allocator, with VF through the
 * device's table. CUBEYARD_ERROR_UNSUPPORTED if the device does not know it. */
cubeyard_status cubeyard_physical_address(cubeyard_allocator *allocator, cubeyard_address address,
                                          uint64_t *physical);

/* ---- Programs and launches -------------------------------------------------------------------- */

/* Allocates memory for a program of `binary_bytes` bytes that takes `parameters` operands. `program`
 * receives its number; `address`, which may be NULL, receives the address to write the binary to. */
cubeyard_status cubeyard_program_load(cubeyard_allocator *allocator, uint64_t binary_bytes,
                                      uint32_t parameters, uint64_t *program,
                                      cubeyard_address *address);

/* Returns the properties and the current address of a program's memory. Compaction may move it while no
 * launch uses it. */
cubeyard_status cubeyard_program_resolve(cubeyard_allocator *allocator, uint64_t program,
                                         cubeyard_block_info *info);

/* Frees a program once its last launch has ended. CUBEYARD_ERROR_STALE if it was freed before. */
cubeyard_status cubeyard_program_unload(cubeyard_allocator *allocator, uint64_t program);

/* An argument of a launch: a block, or a part of one, such as a tile. */
typedef struct cubeyard_argument {
    cubeyard_block block;
    uint64_t offset; /* in the block */
    uint64_t size;   /* 0 for the rest of the block */
} cubeyard_argument;

/* An argument as resolved through the segment table for the program. */
typedef struct cubeyard_operand {
    uint64_t flat;
    uint64_t offset;  /* in the region */
    uint64_t size;
    uint64_t segment; /* the region's place in the segment table */
} cubeyard_operand;

/* Addresses of a launch's resources on the device. */
typedef struct cubeyard_launch_info {
    cubeyard_address program;
    cubeyard_address corrections; /* a separate block for this launch, to be written before it runs */
    uint64_t corrections_bytes;
} cubeyard_launch_info;

/* Prepares a launch of `program`: keeps the program and its operands in place, even if they are freed,
 * and resolves the operands. `count` must be the number of parameters that the program was loaded with.
 * `launch` receives the launch's number; `info` may be NULL. */
cubeyard_status cubeyard_launch_begin(cubeyard_allocator *allocator, uint64_t program,
                                      const cubeyard_argument *arguments, size_t count,
                                      uint64_t *launch, cubeyard_launch_info *info);

/* Returns the operands of a launch, in order. */
cubeyard_status cubeyard_launch_operands(cubeyard_allocator *allocator, uint64_t launch,
                                         cubeyard_operand *operands, size_t capacity, size_t *count);

/* Returns the bytes of the launch's corrections: for each operand its flat address and its size, 8
 * bytes each, little-endian. */
cubeyard_status cubeyard_launch_corrections(cubeyard_allocator *allocator, uint64_t launch,
                                            uint8_t *buffer, size_t capacity, size_t *length);

/* Returns the segment table of the launch, for the device's control block. */
cubeyard_status cubeyard_launch_segment_table(cubeyard_allocator *allocator, uint64_t launch,
                                              cubeyard_segment *entries, size_t capacity,
                                              size_t *count);

/* Ends a launch; call this when the device is done with it. CUBEYARD_ERROR_STALE if it has already
 * ended. */
cubeyard_status cubeyard_launch_end(cubeyard_allocator *allocator, uint64_t launch);

/* ---- Compaction ------------------------------------------------------------------------------- */

/* Plans moves that make free memory contiguous. Blocks that are pinned, in a launch, used by several
 * streams, or leaked stay in place. A caller that stores the address of any other block must resolve it
 * again after a commit. `plan` receives the plan's number; `moves`, which may be NULL, receives the
 * number of moves. */
cubeyard_status cubeyard_compact(cubeyard_allocator *allocator, uint64_t *plan, size_t *moves);

/* Since 1.3. Plans the next step of a compaction, with at most `budget` bytes to copy, or with one block
 * if that is larger. A plan without moves says that the pass is complete. */
cubeyard_status cubeyard_compact_step(cubeyard_allocator *allocator, uint64_t budget, uint64_t *plan,
                                      size_t *moves);

/* A block to be copied; source and target do not overlap. */
typedef struct cubeyard_move {
    cubeyard_address from;
    cubeyard_address to;
    uint64_t size;
} cubeyard_move;

/* Returns the moves of a plan, in an order in which they can be made. */
cubeyard_status cubeyard_plan_moves(cubeyard_allocator *allocator, uint64_t plan,
                                    cubeyard_move *moves, size_t capacity, size_t *count);

/* Commits a plan after the data has been copied: the blocks are then at their new places. A block that
 * was freed or pinned after the plan was created stays in place. `moved`, which may be NULL, receives
 * the number of moved blocks. */
cubeyard_status cubeyard_plan_commit(cubeyard_allocator *allocator, uint64_t plan, size_t *moved);

/* Drops a plan; nothing has moved. */
cubeyard_status cubeyard_plan_drop(cubeyard_allocator *allocator, uint64_t plan);

/* ---- Pools and tags --------------------------------------------------------------------------- */

/* All of this section is since 1.3. A limit or a budget that does not exist. */
#define CUBEYARD_NO_LIMIT UINT64_MAX

/* Creates a pool: its blocks lie in regions of their own. `name` is for reports. `limit` is the maximum
 * number of bytes of its regions, or CUBEYARD_NO_LIMIT. `pool` receives the pool's number, which is not 0
 * and is not used again. A number means nothing to another allocator. */
cubeyard_status cubeyard_pool_create(cubeyard_allocator *allocator, const char *name, uint64_t limit,
                                     uint32_t *pool);

/* Destroys a pool. Its blocks stay valid; each of its regions is released as soon as it is empty.
 * CUBEYARD_ERROR_STALE if it was destroyed before, here and below. */
cubeyard_status cubeyard_pool_destroy(cubeyard_allocator *allocator, uint32_t pool);

/* Allocates a block as cubeyard_allocate does, from a pool and with a tag; 0 stands for none. If the
 * block does not fit into the hard budget of the tag, the error is CUBEYARD_ERROR_BUDGET. `address` may
 * be NULL. */
cubeyard_status cubeyard_allocate_in(cubeyard_allocator *allocator, uint32_t pool, uint32_t tag,
                                     const cubeyard_request *request, cubeyard_block *block,
                                     cubeyard_address *address);

/* Sets the limit of a pool. A pool that already has more keeps its memory, and gets no more. */
cubeyard_status cubeyard_pool_limit(cubeyard_allocator *allocator, uint32_t pool, uint64_t limit);

/* Returns a statistic of a pool, by the keys of cubeyard_stat. */
cubeyard_status cubeyard_pool_stat(cubeyard_allocator *allocator, uint32_t pool, const char *key,
                                   int64_t *value);

/* Returns the idle memory of a pool to the device. `released`, which may be NULL, receives the number of
 * bytes. */
cubeyard_status cubeyard_pool_trim(cubeyard_allocator *allocator, uint32_t pool, uint64_t *released);

/* Returns the number of a tag, which is not 0. A new name is registered. The bytes of blocks with the tag
 * are counted. */
cubeyard_status cubeyard_tag(cubeyard_allocator *allocator, const char *name, uint32_t *tag);

/* Sets the budgets of a tag; CUBEYARD_NO_LIMIT for none. A request that would exceed the hard budget is
 * refused. When the soft budget is exceeded, subscribers get CUBEYARD_EVENT_BUDGET_EXCEEDED and pressure
 * callbacks are called. CUBEYARD_ERROR_UNKNOWN_KEY if there is no such tag. */
cubeyard_status cubeyard_tag_budget(cubeyard_allocator *allocator, uint32_t tag, uint64_t soft,
                                    uint64_t hard);

/* Figures of a tag. */
typedef struct cubeyard_tag_figures {
    uint64_t allocated; /* bytes of its live blocks */
    uint64_t peak;      /* highest value of `allocated` */
    uint64_t blocks;    /* number of its live blocks */
    uint64_t soft;      /* budgets, or CUBEYARD_NO_LIMIT */
    uint64_t hard;
} cubeyard_tag_figures;

cubeyard_status cubeyard_tag_report(cubeyard_allocator *allocator, uint32_t tag,
                                    cubeyard_tag_figures *figures);

/* Pauses all blocks of a pool, or with a tag: returns their memory to the device and keeps their
 * addresses. Their contents are lost. Pool 0 is the allocator's own. It waits for the streams that may
 * access them. A paused block can be freed; launches, exports and resizes of it are refused. `bytes`,
 * which may be NULL, receives the number of bytes returned. CUBEYARD_ERROR_UNSUPPORTED without growable
 * regions; CUBEYARD_ERROR_IN_USE if a block is pinned, and then nothing is paused. */
cubeyard_status cubeyard_pool_pause(cubeyard_allocator *allocator, uint32_t pool, uint64_t *bytes);
cubeyard_status cubeyard_tag_pause(cubeyard_allocator *allocator, uint32_t tag, uint64_t *bytes);

/* Commits memory to all paused blocks of a pool, or with a tag, at their addresses. CUBEYARD_ERROR_FULL
 * if there is not enough for all of them, and then none is resumed. `bytes`, which may be NULL, receives
 * the number of bytes committed. */
cubeyard_status cubeyard_pool_resume(cubeyard_allocator *allocator, uint32_t pool, uint64_t *bytes);
cubeyard_status cubeyard_tag_resume(cubeyard_allocator *allocator, uint32_t tag, uint64_t *bytes);

/* ---- Running out ------------------------------------------------------------------------------ */

/* Report on a request that cannot be served. */
typedef struct cubeyard_out_of_memory {
    cubeyard_status status; /* CUBEYARD_ERROR_FULL, _FRAGMENTED or _TOO_BIG */
    uint32_t regions;       /* number of regions that the request could use */
    uint64_t requested;
    uint64_t rounded;       /* requested bytes, rounded to the configured alignment */
    uint64_t free_bytes;    /* free bytes in these regions */
    uint64_t largest;       /* the longest free range */
    uint64_t longest_block; /* longest block that fits an empty region */
    uint64_t pending;       /* freed bytes that wait for streams */
    uint64_t device_free;
    uint64_t device_total;
    const char *text;       /* the report as text; in an error, with the remedies that make room */
} cubeyard_out_of_memory;

/* Callback for the case that memory has run out and the allocator's own remedies have failed. The
 * report is valid during the call. The callback may free blocks; then the request is tried once more. */
typedef void (*cubeyard_pressure)(void *user, const cubeyard_out_of_memory *report);

/* Registers a pressure callback. Callbacks are called in the order of their registration. */
cubeyard_status cubeyard_on_pressure(cubeyard_allocator *allocator, cubeyard_pressure callback,
                                     void *user);

/* Takes back the oldest registration of a callback with this `user`. Afterwards it is not called any
 * more, and no other thread is running it: this waits for threads that are inside a pressure callback,
 * except when it is called from a pressure callback. CUBEYARD_ERROR_STALE if there is no such
 * registration. */
cubeyard_status cubeyard_remove_pressure(cubeyard_allocator *allocator, cubeyard_pressure callback,
                                         void *user);

/* Returns the report of the last out-of-memory error on this thread. `report->text` is valid as long as
 * the text of cubeyard_last_error. CUBEYARD_ERROR_UNKNOWN_KEY if the last error was of another kind. */
cubeyard_status cubeyard_last_out_of_memory(cubeyard_out_of_memory *report);

/* Returns all idle memory to the device. `released`, which may be NULL, receives the number of bytes. */
cubeyard_status cubeyard_trim(cubeyard_allocator *allocator, uint64_t *released);

/* Since 1.2. Forgets that the device has refused all sizes of a region, so that it is asked again. */
cubeyard_status cubeyard_unlock_regions(cubeyard_allocator *allocator);

/* Waits until no freed block waits for a stream. */
cubeyard_status cubeyard_synchronize(cubeyard_allocator *allocator);

/* ---- Watching --------------------------------------------------------------------------------- */

/* Kinds of events. Later versions may add others. */
enum {
    CUBEYARD_EVENT_ALLOC = 1,          /* a block was allocated */
    CUBEYARD_EVENT_FREE_REQUESTED = 2, /* a block was freed by its owner */
    CUBEYARD_EVENT_FREE_COMPLETED = 3, /* a freed range can be allocated again */
    CUBEYARD_EVENT_SEGMENT_ALLOC = 4,  /* a region was acquired */
    CUBEYARD_EVENT_SEGMENT_FREE = 5,   /* a region was released */
    CUBEYARD_EVENT_SEGMENT_MAP = 6,    /* memory was committed to a part of a region */
    CUBEYARD_EVENT_SEGMENT_UNMAP = 7,  /* memory was decommitted from a part of a region */
    CUBEYARD_EVENT_ROOM_RESERVED = 8,  /* a compaction plan reserved room for a block */
    CUBEYARD_EVENT_ROOM_RELEASED = 9,  /* reserved room was released; FREE_COMPLETED follows */
    CUBEYARD_EVENT_MOVE = 10,          /* a block moved; FREE_COMPLETED follows for its old place */
    CUBEYARD_EVENT_STREAM_WAIT = 11,   /* the allocator waited for streams */
    CUBEYARD_EVENT_OUT_OF_MEMORY = 12, /* a request failed */
    CUBEYARD_EVENT_SNAPSHOT = 13,      /* a snapshot was taken */
    CUBEYARD_EVENT_BUDGET_EXCEEDED = 14 /* since 1.3: a tag is above its soft budget, with `size` bytes */
};

/* One event. Later versions may add fields at the end. */
typedef struct cubeyard_event {
    uint32_t action;          /* CUBEYARD_EVENT_... */
    uint32_t stream;          /* stream of the block */
    uint32_t site;            /* call site of the block's allocation; 0 if unknown */
    uint32_t unused;          /* 0 */
    uint64_t number;          /* position in the order of all events */
    uint64_t time_us;         /* time in microseconds */
    uint64_t thread;          /* number of the thread whose call caused the event */
    cubeyard_address address; /* block or part of a region; zeros for events without an address */
    uint64_t flat;            /* the same as a flat address */
    cubeyard_address target;  /* new address of a block that moved; zeros for other events */
    uint64_t target_flat;     /* the same as a flat address */
    uint64_t size;            /* length of the block or part */
    uint64_t requested;       /* bytes requested for the block */
    uint64_t device_free;     /* free memory of the device, if a request failed */
    uint32_t pool;            /* since 1.3: pool of the region or the request; 0 for none */
    uint32_t tag;             /* since 1.3: tag of the block or the request; 0 for none */
} cubeyard_event;

/* Subscriber. The event is valid during the call. Events arrive one at a time, in one order for all
 * threads, before the call that caused them returns: on its thread, or on another thread that delivers
 * events at that moment. No lock of the allocator is held, so the subscriber may call back; the events of
 * these calls follow when it has returned. cubeyard_destroy and cubeyard_abandon of its allocator are
 * refused (CUBEYARD_ERROR_REENTRANT). It must not wait for another thread that uses the allocator. */
typedef void (*cubeyard_subscriber)(void *user, const cubeyard_event *event);

/* Registers a subscriber to all events from now on. `subscription` receives the subscription's number.
 * Destroying the allocator ends its subscriptions. */
cubeyard_status cubeyard_subscribe(cubeyard_allocator *allocator, cubeyard_subscriber callback,
                                   void *user, uint64_t *subscription);

/* Writes allocations and frees from now on to a file, as RAPIDS RMM's logs are written
 * (Thread,Time,Action,Pointer,Size,Stream). The file is complete when cubeyard_unsubscribe returns
 * CUBEYARD_OK; CUBEYARD_ERROR_IO if it could not be written. */
cubeyard_status cubeyard_subscribe_rmm_log(cubeyard_allocator *allocator, const char *path,
                                           uint64_t *subscription);

/* Ends a subscription. Afterwards the subscriber is not called any more, and no other thread is running
 * it: this waits for a thread that is delivering events. A subscriber may end its own subscription.
 * CUBEYARD_ERROR_STALE if it has already ended. */
cubeyard_status cubeyard_unsubscribe(cubeyard_allocator *allocator, uint64_t subscription);

/* ---- Figures ---------------------------------------------------------------------------------- */

/* Returns the value of one of the keys of torch.accelerator.memory_stats, such as
 * "allocated_bytes.all.current". */
cubeyard_status cubeyard_stat(cubeyard_allocator *allocator, const char *key, int64_t *value);

/* Writes all statistics of one moment as a JSON object into `buffer` of `capacity` bytes. `length`,
 * which may be NULL, receives the required size including the terminating NUL. `buffer` may be NULL if
 * `capacity` is 0. CUBEYARD_ERROR_BUFFER if the text does not fit. */
cubeyard_status cubeyard_stats_json(cubeyard_allocator *allocator, char *buffer, size_t capacity,
                                    size_t *length);

/* Sets the peaks to the current values. */
cubeyard_status cubeyard_reset_peak_stats(cubeyard_allocator *allocator);

/* Sets the accumulated values and the counters to zero. */
cubeyard_status cubeyard_reset_accumulated_stats(cubeyard_allocator *allocator);

/* Returns the device's total memory, and the part that is not acquired. */
cubeyard_status cubeyard_memory_info(cubeyard_allocator *allocator, uint64_t *free_bytes,
                                     uint64_t *total_bytes);

/* ---- Several devices -------------------------------------------------------------------------- */

/* Allocators by device number. They share nothing. */
typedef struct cubeyard_registry cubeyard_registry;

/* Creates a registry without devices. */
cubeyard_status cubeyard_registry_new(cubeyard_registry **registry);

/* Frees a registry; its allocators are not destroyed. NULL is ignored. */
cubeyard_status cubeyard_registry_free(cubeyard_registry *registry);

/* Adds a device. CUBEYARD_ERROR_IN_USE if it already has an allocator. An allocator cannot be destroyed
 * while it is in a registry. */
cubeyard_status cubeyard_registry_add(cubeyard_registry *registry, uint32_t device,
                                      cubeyard_allocator *allocator);

/* Returns the allocator of a device. CUBEYARD_ERROR_UNKNOWN_KEY if there is none. */
cubeyard_status cubeyard_registry_get(cubeyard_registry *registry, uint32_t device,
                                      cubeyard_allocator **allocator);

/* Removes a device; its allocator is not destroyed. */
cubeyard_status cubeyard_registry_remove(cubeyard_registry *registry, uint32_t device);

/* Returns the numbers of all devices, in order. */
cubeyard_status cubeyard_registry_devices(cubeyard_registry *registry, uint32_t *devices,
                                          size_t capacity, size_t *count);

/* ---- Snapshots -------------------------------------------------------------------------------- */

/* Writes a snapshot to a file, as a pickle for PyTorch's memory viewer. `device` is the device's number
 * in it, at most 65535. The snapshot contains the most recent events if the configuration's `history`
 * is not 0. */
cubeyard_status cubeyard_snapshot_file(cubeyard_allocator *allocator, uint32_t device,
                                       const char *path);

/* Receives `length` bytes; returns 0 on success. */
typedef int (*cubeyard_write)(void *user, const void *bytes, size_t length);

/* Writes a snapshot to a function, part by part. */
cubeyard_status cubeyard_snapshot_write(cubeyard_allocator *allocator, uint32_t device,
                                        cubeyard_write write, void *user);

#ifdef __cplusplus
}
#endif

#endif
