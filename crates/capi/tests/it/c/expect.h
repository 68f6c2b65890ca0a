/* Checks that say where they failed. */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cubeyard.h"

#define MIB (UINT64_C(1) << 20)

static int expectations;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        expectations++;                                                                            \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: expected %s; last error: %s\n", __FILE__, __LINE__,            \
                    #condition, cubeyard_last_error());                                            \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define EXPECT_OK(call) EXPECT((call) == CUBEYARD_OK)
#define EXPECT_ERROR(status, call, words)                                                          \
    do {                                                                                           \
        EXPECT((call) == CUBEYARD_ERROR_##status);                                                 \
        EXPECT(strstr(cubeyard_last_error(), words) != NULL);                                      \
    } while (0)

/* An allocator over a simulated card. */
static inline cubeyard_allocator *on_card(const char *text, uint32_t mode, uint32_t table_entries, uint64_t memory) {
    cubeyard_card card = {mode, table_entries, memory};
    cubeyard_config *config;
    cubeyard_allocator *allocator;
    EXPECT_OK(cubeyard_config_new(text, &config));
    EXPECT_OK(cubeyard_create_card(config, &card, &allocator));
    cubeyard_config_free(config);
    return allocator;
}

static inline cubeyard_block allocate_on(cubeyard_allocator *allocator, uint64_t size, uint32_t stream) {
    cubeyard_request request = {.size = size, .stream = stream};
    cubeyard_block block;
    EXPECT_OK(cubeyard_allocate(allocator, &request, &block, NULL));
    return block;
}

static inline cubeyard_block allocate(cubeyard_allocator *allocator, uint64_t size) {
    return allocate_on(allocator, size, 0);
}

static inline int64_t stat(cubeyard_allocator *allocator, const char *key) {
    int64_t value = -7;
    EXPECT_OK(cubeyard_stat(allocator, key, &value));
    return value;
}

#endif
