/* Subscribers: functions of the caller that receive every event, a log in a file, and pressure callbacks that
 * are taken back. */
#include "expect.h"

static cubeyard_allocator *watched_card(void) {
    return on_card("fallback_sizes:[16MiB]", CUBEYARD_MODE_PF, 0, 32 * MIB);
}

/* What a subscriber has seen. */
typedef struct seen {
    cubeyard_allocator *allocator;
    uint64_t subscription;
    size_t count;
    cubeyard_event events[16];
} seen;

static void keep(void *user, const cubeyard_event *event) {
    seen *seen = user;
    EXPECT(seen->count < 16);
    seen->events[seen->count++] = *event;
}

static void events_arrive_in_order(void) {
    seen seen = {.allocator = watched_card()};
    cubeyard_block_info info;
    EXPECT_OK(cubeyard_subscribe(seen.allocator, keep, &seen, &seen.subscription));
    cubeyard_block block = allocate_on(seen.allocator, 1000, 5);
    EXPECT_OK(cubeyard_resolve(seen.allocator, block, &info));
    EXPECT(seen.count == 2 && seen.events[0].action == CUBEYARD_EVENT_SEGMENT_ALLOC);
    cubeyard_event event = seen.events[1];
    EXPECT(event.action == CUBEYARD_EVENT_ALLOC && event.number == 1 && event.stream == 5);
    EXPECT(event.size == 1024 && event.requested == 1000 && event.flat == info.flat);
    EXPECT(event.address.region_id == info.address.region_id && event.address.offset == 0);
    EXPECT_OK(cubeyard_free(seen.allocator, block));
    EXPECT(seen.count == 4 && seen.events[2].action == CUBEYARD_EVENT_FREE_REQUESTED);
    EXPECT(seen.events[3].action == CUBEYARD_EVENT_FREE_COMPLETED && seen.events[3].number == 3);
    EXPECT_OK(cubeyard_unsubscribe(seen.allocator, seen.subscription));
    EXPECT_ERROR(STALE, cubeyard_unsubscribe(seen.allocator, seen.subscription), "no such subscription");
    EXPECT_OK(cubeyard_free(seen.allocator, allocate_on(seen.allocator, 1000, 5)));
    EXPECT(seen.count == 4);
    EXPECT_ERROR(ARGUMENT, cubeyard_subscribe(seen.allocator, NULL, NULL, &seen.subscription),
                 "`callback` is NULL");
    EXPECT_ERROR(ARGUMENT, cubeyard_subscribe(seen.allocator, keep, &seen, NULL),
                 "`subscription` is NULL");
    EXPECT_OK(cubeyard_destroy(seen.allocator));
}

/* Reads a figure, is refused to destroy, and ends its own subscription. */
static void call_back(void *user, const cubeyard_event *event) {
    seen *seen = user;
    int64_t allocated = 0;
    seen->count++;
    if (event->action != CUBEYARD_EVENT_ALLOC)
        return;
    EXPECT_OK(cubeyard_stat(seen->allocator, "allocated_bytes.all.current", &allocated));
    EXPECT(allocated == 1024);
    EXPECT_ERROR(REENTRANT, cubeyard_destroy(seen->allocator), "calling this callback");
    EXPECT_OK(cubeyard_unsubscribe(seen->allocator, seen->subscription));
}

static void a_subscriber_may_call_back(void) {
    seen seen = {.allocator = watched_card()};
    EXPECT_OK(cubeyard_subscribe(seen.allocator, call_back, &seen, &seen.subscription));
    EXPECT_OK(cubeyard_free(seen.allocator, allocate_on(seen.allocator, 1000, 5)));
    EXPECT(seen.count == 2);
    EXPECT_OK(cubeyard_destroy(seen.allocator));
}

static void destroying_ends_subscriptions(void) {
    seen seen = {.allocator = watched_card()};
    EXPECT_OK(cubeyard_subscribe(seen.allocator, keep, &seen, &seen.subscription));
    EXPECT_OK(cubeyard_free(seen.allocator, allocate_on(seen.allocator, 1000, 5)));
    EXPECT_OK(cubeyard_destroy(seen.allocator));
    EXPECT(seen.count == 5 && seen.events[4].action == CUBEYARD_EVENT_SEGMENT_FREE);
}

static void a_log_is_written(const char *path) {
    cubeyard_allocator *allocator = watched_card();
    uint64_t log;
    char text[200] = {0};
    EXPECT_ERROR(IO, cubeyard_subscribe_rmm_log(allocator, "/no/such/folder", &log), "/no/such/folder");
    EXPECT_OK(cubeyard_subscribe_rmm_log(allocator, path, &log));
    EXPECT_OK(cubeyard_free(allocator, allocate_on(allocator, 1000, 5)));
    EXPECT_OK(cubeyard_unsubscribe(allocator, log));
    EXPECT_OK(cubeyard_destroy(allocator));
    FILE *file = fopen(path, "r");
    EXPECT(file != NULL && fread(text, 1, sizeof text - 1, file) > 0 && fclose(file) == 0);
    EXPECT(strncmp(text, "Thread,Time,Action,Pointer,Size,Stream\n", 39) == 0);
    EXPECT(strstr(text, ",allocate,0x400000000,1000,5\n") != NULL);
    EXPECT(strstr(text, ",free,0x400000000,1000,5\n") != NULL);
}

static void count(void *user, const cubeyard_out_of_memory *report) {
    (void)report;
    ++*(int *)user;
}

static void pressure_callbacks_are_taken_back(void) {
    cubeyard_allocator *allocator = watched_card();
    cubeyard_request request = {.size = 17 * MIB};
    cubeyard_block block;
    int first = 0, second = 0;
    EXPECT_OK(cubeyard_on_pressure(allocator, count, &first));
    EXPECT_OK(cubeyard_on_pressure(allocator, count, &second));
    EXPECT(cubeyard_allocate(allocator, &request, &block, NULL) != CUBEYARD_OK);
    EXPECT_OK(cubeyard_remove_pressure(allocator, count, &first));
    EXPECT(cubeyard_allocate(allocator, &request, &block, NULL) != CUBEYARD_OK);
    EXPECT(first == 1 && second == 2);
    EXPECT_ERROR(STALE, cubeyard_remove_pressure(allocator, count, &first), "no such pressure callback");
    EXPECT_ERROR(ARGUMENT, cubeyard_remove_pressure(allocator, NULL, &first), "`callback` is NULL");
    EXPECT_OK(cubeyard_destroy(allocator));
}

int main(int argc, char **argv) {
    EXPECT(argc == 2);
    events_arrive_in_order();
    a_subscriber_may_call_back();
    destroying_ends_subscriptions();
    a_log_is_written(argv[1]);
    pressure_callbacks_are_taken_back();
    printf("%d expectations hold\n", expectations);
    return 0;
}
