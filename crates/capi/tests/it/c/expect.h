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

#endif
