/*
 * Cubeyard for C: an allocator for accelerator memory.
 *
 * An allocator acquires a few large regions from a device and carves blocks out of them. It knows
 * the device as a simulated card, as memory of this process, or as functions of yours
 * (cubeyard_device). A block is named by a cubeyard_block, which is two numbers to be copied at
 * will; a block that was freed is recognised by it, even when its place is used again.
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
 * what would be written to is untouched, and cubeyard_last_error() says why in words.
 *
 * Threads. Every function may be called from any thread at any time, also for one and the same
 * allocator and block, with two exceptions: a cubeyard_config belongs to one thread at a time, and
 * no other call on an allocator may be under way when it is destroyed. Callbacks are called on the
 * thread that made the call, with no lock held, so they may call back; possibly on several threads
 * at a time. A callback must return: no longjmp, no C++ exception.
 *
 * Calling back. A pressure callback may call everything but cubeyard_destroy and cubeyard_abandon of
 * its allocator (CUBEYARD_ERROR_REENTRANT); a request that it makes calls no pressure callback. Functions of a device and of
 * streams may free, pin, resolve and look. They may allocate too, where there is room: what would have
 * to call the device or the streams again (an allocation that needs a region, cubeyard_trim,
 * cubeyard_destroy, cubeyard_abandon) is refused with CUBEYARD_ERROR_REENTRANT. They must not wait for
 * another thread that makes such a call.
 *
 * Forks. A child has no threads of its parent's, so that locks may be locked for ever, and the parent
 * goes on using the device. In a child, every function refuses an allocator or a registry that was made
 * before the fork, with CUBEYARD_ERROR_FORKED and without waiting for anything; one that the child
 * makes works. An allocator of the parent's cannot be destroyed by the child, and need not be.
 *
 * Pointers. Those that may be NULL say so. NULL elsewhere, or a pointer that is not aligned for its
 * type, is refused with CUBEYARD_ERROR_ARGUMENT; a pointer that is wrong otherwise is not noticed.
 * Strings are UTF-8 and end with NUL. Nothing that is passed in is kept after the call, except
 * `user` pointers and functions.
 *
 * Versions. Functions and constants are added with a new minor version and removed or changed with
 * a new major one. Structs that may grow begin with `struct_size`; set it to sizeof the struct.
 */
#ifndef CUBEYARD_H
#define CUBEYARD_H

#include <stddef.h>
#include <stdint.h>

#define CUBEYARD_VERSION_MAJOR 1
#define CUBEYARD_VERSION_MINOR 1

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Results ---------------------------------------------------------------------------------- */

typedef int32_t cubeyard_status;

enum {
    /* Done. */
    CUBEYARD_OK = 0,
    /* An argument cannot be: NULL, not aligned, not UTF-8, an unknown constant, a size of zero, an
     * alignment that is no power of two. A mistake in the calling program; correct it. */
    CUBEYARD_ERROR_ARGUMENT = 1,
    /* A configuration, in a string or in the environment, cannot be understood. The message names
     * the key and what was expected; tell whoever wrote it. */
    CUBEYARD_ERROR_CONFIG = 2,
    /* The device cannot do what the configuration asks of it, such as growable regions. Use another
     * configuration. */
    CUBEYARD_ERROR_UNSUPPORTED = 3,
    /* Out of memory: less is free than was asked for. Free something and try again. */
    CUBEYARD_ERROR_FULL = 4,
    /* Out of memory: enough is free, but in parts. Free something and try again, or use another
     * policy. */
    CUBEYARD_ERROR_FRAGMENTED = 5,
    /* Out of memory: no region could ever hold so much. Waiting does not help; ask for less or
     * configure larger regions. */
    CUBEYARD_ERROR_TOO_BIG = 6,
    /* The block was freed before. A mistake in the calling program (a double free, a use after
     * free), of which no harm came. */
    CUBEYARD_ERROR_STALE = 7,
    /* The address is in no region of this allocator, or the block is none of its blocks. It belongs to
     * another allocator, or the region was given back. */
    CUBEYARD_ERROR_FOREIGN = 8,
    /* The address is in a region, but no live block starts there: it was freed before, or points
     * inside a block. */
    CUBEYARD_ERROR_NOT_LIVE = 9,
    /* There are blocks or pins that are still live: free them, or use cubeyard_abandon. Or the allocator
     * is in a registry: remove it. Or a registry has an allocator for the device already. */
    CUBEYARD_ERROR_IN_USE = 10,
    /* There is no statistic of that name, or no device of that number. */
    CUBEYARD_ERROR_UNKNOWN_KEY = 11,
    /* The buffer is too short. The length that is needed was written; try again with that. */
    CUBEYARD_ERROR_BUFFER = 12,
    /* A file, or the function that was to take the bytes, failed. */
    CUBEYARD_ERROR_IO = 13,
    /* A mistake in Cubeyard. Please report it with the message. The allocator may be used to free
     * and inspect, but should be replaced. */
    CUBEYARD_ERROR_INTERNAL = 14,
    /* The call was made from a function of the device, of the streams or for pressure that the allocator
     * is calling on this thread, and would have to call them again, or end the allocator under the call.
     * Make it when that function has returned. */
    CUBEYARD_ERROR_REENTRANT = 15,
    /* The allocator or the registry was made before a fork, and this is the child. Make another. */
    CUBEYARD_ERROR_FORKED = 16
};

/* Major version in the upper 16 bits, minor version in the lower, of the library that is loaded. It
 * suits this header if the major version is the same and the minor version not lower. */
uint32_t cubeyard_abi_version(void);

/* Why the last call that failed on this thread did; "" if none has. After an out-of-memory error
 * this is the whole report. Valid until the next call on this thread fails. */
const char *cubeyard_last_error(void);

/* A constant's name, such as "CUBEYARD_ERROR_STALE"; "unknown" for what is none. */
const char *cubeyard_status_name(cubeyard_status status);

/* ---- Configuration ---------------------------------------------------------------------------- */

/* How an allocator is to be made. */
typedef struct cubeyard_config cubeyard_config;

/* What the region ids of a device mean. */
enum {
    /* What the configuration says: FLEX_DEVICE where that was read, else PF. */
    CUBEYARD_MODE_CONFIGURED = 0,
    /* Physical function: the region's physical address. */
    CUBEYARD_MODE_PF = 1,
    /* Virtual function: an index into the firmware's table. */
    CUBEYARD_MODE_VF = 2
};

/* A configuration from `text`, "key:value,key:value,..."; NULL and "" give the default. For example
 * "fallback_sizes:[8GiB;2GiB],block:best-fit,history:10000". */
cubeyard_status cubeyard_config_new(const char *text, cubeyard_config **config);

/* A configuration from the environment. This is the only function that reads it.
 *
 *   CUBEYARD_ALLOC_CONF        the text of cubeyard_config_new
 *   FLEX_DEVICE                PF or VF
 *   CUBEYARD_ALLOC_DEBUG, TORCH_SPYRE_ALLOC_DEBUG, TORCH_SPYRE_DEBUG
 *                              any of them, not empty and not 0: every step is logged to standard
 *                              error, unless the program has a log of its own (`tracing`) already
 */
cubeyard_status cubeyard_config_from_env(cubeyard_config **config);

/* Sets one key. */
cubeyard_status cubeyard_config_set(cubeyard_config *config, const char *key, const char *value);

/* CUBEYARD_MODE_PF or CUBEYARD_MODE_VF: which of them FLEX_DEVICE asks for, for those who make the
 * device themselves. */
cubeyard_status cubeyard_config_mode(const cubeyard_config *config, uint32_t *mode);

/* Streams: what a device tells an allocator about them. A block that several streams use is free
 * only when each has passed the point at which it was freed. Without streams every free is
 * immediate. */
typedef struct cubeyard_events {
    size_t struct_size;
    void *user;
    /* Marks the point that `stream` has reached, and returns a name for it. */
    uint64_t (*record)(void *user, uint32_t stream);
    /* Not 0 if the stream has passed that point. Points of one stream are passed in order. */
    int (*is_complete)(void *user, uint64_t event);
    /* Returns when it has. */
    void (*wait)(void *user, uint64_t event);
} cubeyard_events;

/* Gives the allocators that are made from `config` streams. */
cubeyard_status cubeyard_config_events(cubeyard_config *config, const cubeyard_events *events);

/* Frees a configuration; the allocators made from it do not need it. NULL is ignored. */
void cubeyard_config_free(cubeyard_config *config);

/* ---- Allocators ------------------------------------------------------------------------------- */

typedef struct cubeyard_allocator cubeyard_allocator;

/* A simulated card, which counts its memory and has none. */
typedef struct cubeyard_card {
    uint32_t mode;          /* CUBEYARD_MODE_... */
    uint32_t table_entries; /* of the firmware; used with VF, 8 to 16 on real cards */
    uint64_t bytes;         /* its memory */
} cubeyard_card;

/* A device of yours. The first three functions are needed, the others only for growable regions.
 * The allocator never calls two of acquire, reserve and release at a time, nor two of commit and
 * decommit for one region. */
typedef struct cubeyard_device {
    size_t struct_size;
    uint32_t mode; /* CUBEYARD_MODE_... */
    /* The granule of commit, a power of two; 0 for a device that cannot. */
    uint64_t granule;
    void *user;
    /* Hands out `size` bytes of memory: writes the region's id, different from that of every other
     * region that is out, and returns not 0; or returns 0 where there is none to give. */
    int (*acquire)(void *user, uint64_t size, uint64_t *region_id);
    /* Takes a region back, with all that is committed in it. */
    void (*release)(void *user, uint64_t region_id, uint64_t size);
    /* How much memory there is. */
    void (*info)(void *user, uint64_t *free_bytes, uint64_t *total_bytes);
    /* Like acquire, but `size` bytes of addresses with no memory behind them. */
    int (*reserve)(void *user, uint64_t size, uint64_t *region_id);
    /* Puts memory behind a part of a reserved region; 0 where there is not enough, and then nothing
     * has changed. */
    int (*commit)(void *user, uint64_t region_id, uint64_t offset, uint64_t size);
    /* Takes it away again. */
    void (*decommit)(void *user, uint64_t region_id, uint64_t offset, uint64_t size);
    /* Since 1.1. Entries of the firmware's table, which bounds the regions that can be out and is the
     * length of the segment table; 0 for a device without. */
    uint64_t table_entries;
    /* Since 1.1. Writes the physical address of a region's start and returns not 0, or returns 0 where
     * it is not known. NULL: the region's id with PF, not known with VF. */
    int (*physical)(void *user, uint64_t region_id, uint64_t *address);
} cubeyard_device;

/* An allocator over a simulated card. `config` may be NULL for the default, here and below. */
cubeyard_status cubeyard_create_card(const cubeyard_config *config, const cubeyard_card *card,
                                     cubeyard_allocator **allocator);

/* An allocator over at most `limit` bytes of this process's own memory: region_id + offset is a
 * pointer. */
cubeyard_status cubeyard_create_host(const cubeyard_config *config, uint64_t limit,
                                     cubeyard_allocator **allocator);

/* An allocator over a device of yours, whose functions and `user` must stay until the allocator is
 * gone. */
cubeyard_status cubeyard_create_device(const cubeyard_config *config, const cubeyard_device *device,
                                       cubeyard_allocator **allocator);

/* Ends an allocator: waits for streams that freed blocks wait for, and gives all regions back.
 * While a block is live or pinned (programs, launches and plans have blocks too), or the allocator is in
 * a registry, it is refused with CUBEYARD_ERROR_IN_USE, and the allocator stays as it is. NULL is
 * ignored. */
cubeyard_status cubeyard_destroy(cubeyard_allocator *allocator);

/* Ends an allocator whatever is live in it. Afterwards no address from it may be used on the
 * device: the regions are gone. For a program that ends in a hurry. Refused, as cubeyard_destroy is,
 * while it is in a registry. NULL is ignored. */
cubeyard_status cubeyard_abandon(cubeyard_allocator *allocator);

/* ---- Blocks ----------------------------------------------------------------------------------- */

/* Names a block of one allocator; another allocator refuses it. Of all zeros, it names none. */
typedef struct cubeyard_block {
    uint64_t slot;
    uint64_t key;
} cubeyard_block;

/* A place in device memory. */
typedef struct cubeyard_address {
    uint64_t region_id;
    uint64_t offset;
} cubeyard_address;

/* What a block is for. A kind can be given regions of its own (`own_regions`). */
enum { CUBEYARD_TENSOR = 0, CUBEYARD_PROGRAM = 1, CUBEYARD_STAGING = 2 };

/* What is asked for. All but the size may be 0. */
typedef struct cubeyard_request {
    uint64_t size;      /* in bytes */
    uint64_t alignment; /* a power of two, or 0 for that of the configuration */
    uint32_t kind;      /* CUBEYARD_TENSOR, ... */
    uint32_t stream;    /* the stream that it will be used on */
    uint32_t site;      /* where in the program: equal numbers for equal places, 0 if unknown */
    uint32_t reserved;  /* 0 */
} cubeyard_request;

/* What a block is. */
typedef struct cubeyard_block_info {
    cubeyard_address address;
    uint64_t flat;      /* the same place in the flat address space of programs and snapshots */
    uint64_t size;      /* rounded to the configuration's alignment */
    uint64_t requested; /* as asked for */
    uint32_t segment;   /* the region's place in the segment table */
    uint32_t kind;      /* CUBEYARD_TENSOR, ... */
} cubeyard_block_info;

/* Allocates. `address` may be NULL. */
cubeyard_status cubeyard_allocate(cubeyard_allocator *allocator, const cubeyard_request *request,
                                  cubeyard_block *block, cubeyard_address *address);

/* Frees a block. CUBEYARD_ERROR_STALE if it was freed before. */
cubeyard_status cubeyard_free(cubeyard_allocator *allocator, cubeyard_block block);

/* Gives the block up for its address, by which alone it is known from then on (cubeyard_free_address):
 * `block` is stale, and compaction leaves the block where it is. */
cubeyard_status cubeyard_leak(cubeyard_allocator *allocator, cubeyard_block block,
                              cubeyard_address *address);

/* Frees the block that starts at an address. An address can only be checked for being live: if the
 * block was freed and another put in its place, this frees the other. */
cubeyard_status cubeyard_free_address(cubeyard_allocator *allocator, cubeyard_address address);

/* What a block is and where it is now. */
cubeyard_status cubeyard_resolve(cubeyard_allocator *allocator, cubeyard_block block,
                                 cubeyard_block_info *info);

/* Keeps a block where it is, and its memory in use even if it is freed, until `pin` is taken off:
 * for as long as a launch uses it. `info`, which may be NULL, says where that is. A block can be
 * pinned several times. */
cubeyard_status cubeyard_pin(cubeyard_allocator *allocator, cubeyard_block block, uint64_t *pin,
                             cubeyard_block_info *info);

/* Takes a pin off. CUBEYARD_ERROR_STALE if that was done before. */
cubeyard_status cubeyard_unpin(cubeyard_allocator *allocator, uint64_t pin);

/* Notes that `stream` uses the block too. */
cubeyard_status cubeyard_record_stream(cubeyard_allocator *allocator, cubeyard_block block,
                                       uint32_t stream);

/* ---- Regions and segments ---------------------------------------------------------------------

 * Functions that write a list take room for `capacity` elements and write how many there are to `count`,
 * which may be NULL. Where they do not fit, only `count` is written, with CUBEYARD_ERROR_BUFFER. The list
 * may be NULL if `capacity` is 0. */

/* A region. */
typedef struct cubeyard_region {
    uint64_t region_id;
    uint64_t size;       /* its memory: acquired, or committed in a growable region */
    uint64_t free_bytes; /* of that */
    uint64_t largest;    /* the longest free range */
    uint64_t blocks;     /* that are live */
} cubeyard_region;

/* All regions, the oldest first. */
cubeyard_status cubeyard_regions(cubeyard_allocator *allocator, cubeyard_region *regions,
                                 size_t capacity, size_t *count);

/* Not 0 if no further region is acquired: the device has refused all sizes, or there are as many as
 * `max_regions` or the segment table allows. cubeyard_trim can change that. */
cubeyard_status cubeyard_regions_locked(cubeyard_allocator *allocator, int *locked);

/* An entry of the segment table. */
typedef struct cubeyard_segment {
    uint64_t used;      /* 0 for an entry without a region; then the rest is 0 too */
    uint64_t region_id;
    uint64_t base;      /* the region's first flat address */
    uint64_t size;
} cubeyard_segment;

/* The segment table: as many entries as the firmware has, or 64. The entry of a region that was given
 * back is another region's only when every launch that knew it has ended. */
cubeyard_status cubeyard_segment_table(cubeyard_allocator *allocator, cubeyard_segment *entries,
                                       size_t capacity, size_t *count);

/* The physical address of a place in a region of this allocator, through the device's table with VF.
 * CUBEYARD_ERROR_UNSUPPORTED if the device does not know it. */
cubeyard_status cubeyard_physical_address(cubeyard_allocator *allocator, cubeyard_address address,
                                          uint64_t *physical);

/* ---- Programs and launches -------------------------------------------------------------------- */

/* Allocates memory for a program of `binary_bytes` bytes that takes `parameters` operands. `program` is
 * its number, `address`, which may be NULL, where the binary is to be written. */
cubeyard_status cubeyard_program_load(cubeyard_allocator *allocator, uint64_t binary_bytes,
                                      uint32_t parameters, uint64_t *program,
                                      cubeyard_address *address);

/* What a program's memory is and where it is now: compaction may move it while no launch uses it. */
cubeyard_status cubeyard_program_resolve(cubeyard_allocator *allocator, uint64_t program,
                                         cubeyard_block_info *info);

/* Frees a program, when the last launch of it has ended. CUBEYARD_ERROR_STALE if that was done before. */
cubeyard_status cubeyard_program_unload(cubeyard_allocator *allocator, uint64_t program);

/* What a launch is given: a block, or a part of one, such as a tile. */
typedef struct cubeyard_argument {
    cubeyard_block block;
    uint64_t offset; /* in the block */
    uint64_t size;   /* 0 for all from there on */
} cubeyard_argument;

/* The same as the program finds it, through the segment table. */
typedef struct cubeyard_operand {
    uint64_t flat;
    uint64_t offset;  /* in the region */
    uint64_t size;
    uint64_t segment; /* the region's place in the segment table */
} cubeyard_operand;

/* Where a launch has what the device needs. */
typedef struct cubeyard_launch_info {
    cubeyard_address program;
    cubeyard_address corrections; /* a block of this launch's own, to be written before it runs */
    uint64_t corrections_bytes;
} cubeyard_launch_info;

/* Prepares a launch of `program`: keeps it and its operands where they are, even if they are freed, and
 * resolves them. `count` must be what the program was loaded with. `launch` is its number; `info` may be
 * NULL. */
cubeyard_status cubeyard_launch_begin(cubeyard_allocator *allocator, uint64_t program,
                                      const cubeyard_argument *arguments, size_t count,
                                      uint64_t *launch, cubeyard_launch_info *info);

/* The operands of a launch, in order. */
cubeyard_status cubeyard_launch_operands(cubeyard_allocator *allocator, uint64_t launch,
                                         cubeyard_operand *operands, size_t capacity, size_t *count);

/* The bytes of its corrections: for each operand its flat address and its size, 8 bytes each, the low
 * byte first. */
cubeyard_status cubeyard_launch_corrections(cubeyard_allocator *allocator, uint64_t launch,
                                            uint8_t *buffer, size_t capacity, size_t *length);

/* The segment table that it was resolved through, for the device's control block. */
cubeyard_status cubeyard_launch_segment_table(cubeyard_allocator *allocator, uint64_t launch,
                                              cubeyard_segment *entries, size_t capacity,
                                              size_t *count);

/* Ends a launch, when the device is done with it. CUBEYARD_ERROR_STALE if that was done before. */
cubeyard_status cubeyard_launch_end(cubeyard_allocator *allocator, uint64_t launch);

/* ---- Compaction ------------------------------------------------------------------------------- */

/* Plans moves that bring free memory together, of blocks that are not pinned, not in a launch, not used
 * by several streams, and not leaked. Whoever keeps the address of another block must resolve it again
 * after a commit. `plan` is its number; `moves`, which may be NULL, says how many there are. */
cubeyard_status cubeyard_compact(cubeyard_allocator *allocator, uint64_t *plan, size_t *moves);

/* A block to be copied; the two places do not overlap. */
typedef struct cubeyard_move {
    cubeyard_address from;
    cubeyard_address to;
    uint64_t size;
} cubeyard_move;

/* The moves of a plan, in an order in which they can be made. */
cubeyard_status cubeyard_plan_moves(cubeyard_allocator *allocator, uint64_t plan,
                                    cubeyard_move *moves, size_t capacity, size_t *count);

/* The data has been copied: the blocks are in their new places from now on. One that was freed or pinned
 * since the plan was made stays as it is. `moved`, which may be NULL, says how many have moved. */
cubeyard_status cubeyard_plan_commit(cubeyard_allocator *allocator, uint64_t plan, size_t *moved);

/* Gives a plan up; nothing has moved. */
cubeyard_status cubeyard_plan_drop(cubeyard_allocator *allocator, uint64_t plan);

/* ---- Running out ------------------------------------------------------------------------------ */

/* Why a request cannot be served. */
typedef struct cubeyard_out_of_memory {
    cubeyard_status status; /* CUBEYARD_ERROR_FULL, _FRAGMENTED or _TOO_BIG */
    uint32_t regions;       /* how many regions the request might have used */
    uint64_t requested;
    uint64_t rounded;       /* the same, rounded to the configuration's alignment */
    uint64_t free_bytes;    /* in those regions */
    uint64_t largest;       /* the longest free range */
    uint64_t longest_block; /* that a region could hold, were it empty */
    uint64_t pending;       /* freed bytes that wait for streams */
    uint64_t device_free;
    uint64_t device_total;
    const char *text;       /* all of it for people, with what would help */
} cubeyard_out_of_memory;

/* Is called when memory has run out and the allocator has done what it can, with a report that
 * lives as long as the call. It may free blocks; then the request is tried once more. */
typedef void (*cubeyard_pressure)(void *user, const cubeyard_out_of_memory *report);

/* Registers a function for that. They are called in the order in which they were registered. */
cubeyard_status cubeyard_on_pressure(cubeyard_allocator *allocator, cubeyard_pressure callback,
                                     void *user);

/* The report of the last out-of-memory error on this thread. `report->text` lives as long as that of
 * cubeyard_last_error. CUBEYARD_ERROR_UNKNOWN_KEY if the last error was another. */
cubeyard_status cubeyard_last_out_of_memory(cubeyard_out_of_memory *report);

/* Gives everything that is wholly free back to the device. `released`, which may be NULL, says how
 * many bytes that was. */
cubeyard_status cubeyard_trim(cubeyard_allocator *allocator, uint64_t *released);

/* Waits until no freed block waits for a stream any more. */
cubeyard_status cubeyard_synchronize(cubeyard_allocator *allocator);

/* ---- Figures ---------------------------------------------------------------------------------- */

/* One of the keys of torch.accelerator.memory_stats, such as "allocated_bytes.all.current". */
cubeyard_status cubeyard_stat(cubeyard_allocator *allocator, const char *key, int64_t *value);

/* All of them as a JSON object, of one moment, into `buffer` of `capacity` bytes. `length`, which
 * may be NULL, is what that needs with the NUL at its end. `buffer` may be NULL if `capacity` is 0.
 * CUBEYARD_ERROR_BUFFER if it does not fit. */
cubeyard_status cubeyard_stats_json(cubeyard_allocator *allocator, char *buffer, size_t capacity,
                                    size_t *length);

/* Takes what is there now for the peaks. */
cubeyard_status cubeyard_reset_peak_stats(cubeyard_allocator *allocator);

/* Sets what came and went, and the counters, to zero. */
cubeyard_status cubeyard_reset_accumulated_stats(cubeyard_allocator *allocator);

/* What the device has, and what nobody has acquired of it. */
cubeyard_status cubeyard_memory_info(cubeyard_allocator *allocator, uint64_t *free_bytes,
                                     uint64_t *total_bytes);

/* ---- Several devices -------------------------------------------------------------------------- */

/* Allocators by the numbers of their devices. They share nothing. */
typedef struct cubeyard_registry cubeyard_registry;

/* Makes a registry without devices. */
cubeyard_status cubeyard_registry_new(cubeyard_registry **registry);

/* Frees a registry; its allocators stay. NULL is ignored. */
cubeyard_status cubeyard_registry_free(cubeyard_registry *registry);

/* Adds a device. CUBEYARD_ERROR_IN_USE if it has an allocator already. An allocator is not destroyed
 * while it is in a registry. */
cubeyard_status cubeyard_registry_add(cubeyard_registry *registry, uint32_t device,
                                      cubeyard_allocator *allocator);

/* The allocator of a device. CUBEYARD_ERROR_UNKNOWN_KEY if there is none. */
cubeyard_status cubeyard_registry_get(cubeyard_registry *registry, uint32_t device,
                                      cubeyard_allocator **allocator);

/* Takes a device out; its allocator stays. */
cubeyard_status cubeyard_registry_remove(cubeyard_registry *registry, uint32_t device);

/* The numbers of all devices, in order. */
cubeyard_status cubeyard_registry_devices(cubeyard_registry *registry, uint32_t *devices,
                                          size_t capacity, size_t *count);

/* ---- Snapshots -------------------------------------------------------------------------------- */

/* Writes a snapshot, as a pickle for PyTorch's memory viewer, to a file. `device` is the device's
 * number in it, at most 65535. It has the last events if the configuration's `history` is not 0. */
cubeyard_status cubeyard_snapshot_file(cubeyard_allocator *allocator, uint32_t device,
                                       const char *path);

/* Takes `length` bytes; returns 0 if it has. */
typedef int (*cubeyard_write)(void *user, const void *bytes, size_t length);

/* Writes a snapshot to a function, a part at a time. */
cubeyard_status cubeyard_snapshot_write(cubeyard_allocator *allocator, uint32_t device,
                                        cubeyard_write write, void *user);

#ifdef __cplusplus
}
#endif

#endif
