/* A fork while another thread is inside the allocator: the child waited for that thread, which it does
 * not have. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

static int inside[2], go_on[2]; /* pipes */

static int acquire(void *user, uint64_t size, uint64_t *id) {
    char byte = 0;
    (void)user, (void)size;
    EXPECT(write(inside[1], &byte, 1) == 1);
    EXPECT(read(go_on[0], &byte, 1) == 1);
    *id = 1;
    return 1;
}
static void release(void *user, uint64_t id, uint64_t size) { (void)user, (void)id, (void)size; }
static void info(void *user, uint64_t *free_bytes, uint64_t *total_bytes) {
    (void)user;
    *free_bytes = *total_bytes = 64 * MIB;
}

static cubeyard_allocator *allocator;
static cubeyard_block block;

static void *allocate_there(void *user) {
    cubeyard_request request = {.size = MIB};
    (void)user;
    EXPECT_OK(cubeyard_allocate(allocator, &request, &block, NULL));
    return NULL;
}

static int child(void) {
    cubeyard_request request = {.size = MIB};
    cubeyard_block other = {1, 1};
    int64_t value;
    alarm(5); /* it would wait for ever */
    EXPECT_ERROR(FORKED, cubeyard_trim(allocator, NULL), "before a fork");
    EXPECT_ERROR(FORKED, cubeyard_allocate(allocator, &request, &other, NULL), "before a fork");
    EXPECT_ERROR(FORKED, cubeyard_stat(allocator, "num_ooms", &value), "before a fork");
    EXPECT_ERROR(FORKED, cubeyard_destroy(allocator), "before a fork");
    EXPECT_ERROR(FORKED, cubeyard_abandon(allocator), "before a fork");

    /* One of its own works. */
    cubeyard_allocator *own = on_card("fallback_sizes:[16MiB]", CUBEYARD_MODE_PF, 0, 64 * MIB);
    EXPECT_OK(cubeyard_allocate(own, &request, &other, NULL));
    EXPECT_OK(cubeyard_free(own, other));
    EXPECT_OK(cubeyard_destroy(own));
    return 0;
}

int main(void) {
    cubeyard_device device = {0};
    device.struct_size = sizeof device;
    device.mode = CUBEYARD_MODE_PF;
    device.acquire = acquire;
    device.release = release;
    device.info = info;
    cubeyard_config *config;
    EXPECT_OK(cubeyard_config_new("fallback_sizes:[16MiB]", &config));
    EXPECT_OK(cubeyard_create_device(config, &device, &allocator));
    cubeyard_config_free(config);
    EXPECT(pipe(inside) == 0 && pipe(go_on) == 0);

    pthread_t thread;
    char byte = 0;
    EXPECT(pthread_create(&thread, NULL, allocate_there, NULL) == 0);
    EXPECT(read(inside[0], &byte, 1) == 1); /* the thread is inside acquire */
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0)
        _exit(child());
    int status = -1;
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);

    /* The parent has noticed nothing. */
    EXPECT(write(go_on[1], &byte, 1) == 1);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT_OK(cubeyard_free(allocator, block));
    EXPECT_OK(cubeyard_destroy(allocator));
    printf("the child went its own way\n");
    return 0;
}
