/* Makes an allocator as the environment says, and prints what became of it. */
#include <inttypes.h>

#include "expect.h"

int main(void) {
    cubeyard_config *config;
    cubeyard_allocator *allocator;
    cubeyard_card card = {CUBEYARD_MODE_CONFIGURED, 8, UINT64_C(16) << 30};
    cubeyard_request request = {.size = 1000};
    cubeyard_block block;
    cubeyard_address address;
    int64_t reserved;
    uint32_t mode;
    if (cubeyard_config_from_env(&config) != CUBEYARD_OK) {
        printf("%s\n", cubeyard_last_error());
        return 0;
    }
    EXPECT_OK(cubeyard_config_mode(config, &mode));
    EXPECT_OK(cubeyard_create_card(config, &card, &allocator));
    cubeyard_config_free(config);
    EXPECT_OK(cubeyard_allocate(allocator, &request, &block, &address));
    EXPECT_OK(cubeyard_stat(allocator, "reserved_bytes.all.current", &reserved));
    printf("%s, region 0x%" PRIx64 ", %" PRId64 " bytes reserved\n",
           mode == CUBEYARD_MODE_VF ? "VF" : "PF", address.region_id, reserved);
    EXPECT_OK(cubeyard_free(allocator, block));
    EXPECT_OK(cubeyard_destroy(allocator));
    return 0;
}
