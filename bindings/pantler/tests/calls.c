/* Each call, with values that make sense and with others: CALLS FILE LISTENERS [PAUSE]. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pantler.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define REFUSED(call, number) (errno = 0, (call) == -1 && errno == (number))

static int file;

static void *speak(void *priority) {
    for (int turn = 0; turn < 50; turn++)
        assert(pantler_set_priority(file, *(int *)priority) == 0);
    return NULL;
}

int main(int count, char **words) {
    assert(count >= 3);
    int connections = atoi(words[2]), priority = 77;
    char policy[PANTLER_POLICY_BYTES], tight[3];
    struct pantler_list list;
    struct pantler_range ranges[] = {{8192, 16384}, {0, 4096}}, backwards = {9, 5};
    file = open(words[1], O_RDONLY);
    assert(file >= 0 && pantler_connections() == connections);

    assert(pantler_get_priority(file, &priority) == 0 && priority == 0);
    assert(pantler_set_priority(file, -3) == 0);
    sleep(count > 3 ? atoi(words[3]) : 0);
    assert(pantler_get_priority(file, &priority) == 0 && priority == (connections ? -3 : 0));
    assert(REFUSED(pantler_set_priority(file, 1024), EINVAL));
    assert(REFUSED(pantler_set_priority(-1, 0), EBADF));
    assert(REFUSED(pantler_set_priority(999, 0), EBADF));
    assert(REFUSED(pantler_get_priority(file, NULL), EINVAL));

    assert(pantler_set_policy(0, "mru") == 0);
    assert(pantler_get_policy(0, policy, sizeof policy) == 0);
    assert(strcmp(policy, connections ? "mru" : "lru") == 0);
    assert(REFUSED(pantler_get_policy(0, tight, sizeof tight), EINVAL));
    assert(REFUSED(pantler_get_policy(0, NULL, 0), EINVAL));
    assert(REFUSED(pantler_set_policy(0, "no-such-policy"), EINVAL));
    assert(REFUSED(pantler_set_policy(0, "\xff"), EINVAL));
    assert(REFUSED(pantler_set_policy(0, NULL), EINVAL));

    assert(pantler_set_temporary_priority(file, 0, 4096, -1) == 0);
    assert(REFUSED(pantler_set_temporary_priority(file, 4096, 4096, -1), EINVAL));
    assert(REFUSED(pantler_set_temporary_priority(file, -1, 5, -1), EINVAL));

    char part[4096];
    assert(read(file, part, sizeof part) == sizeof part);
    assert(pantler_done_with(file, 0, 4096) == 0);
    assert(REFUSED(pantler_done_with(file, 4096, 4096), EINVAL));
    assert(REFUSED(pantler_done_with(file, -1, 5), EINVAL));
    assert(REFUSED(pantler_done_with(-1, 0, 5), EBADF));
    struct pantler_explanation told;
    memset(&told, 255, sizeof told);
    assert(pantler_explain(file, &told) == 0 && told.priority == (connections ? -3 : 0));
    assert((told.bytes >= 4096) == (connections > 0) && (told.cached_bytes > 0) == (connections > 0));
    assert(told.cached_bytes <= told.bytes && memchr(told.why, 0, sizeof told.why));
    /* On a mount a file of priority -3 has the policy of that priority. */
    assert(memchr(told.policy, 0, sizeof told.policy) && strcmp(told.policy, "lru") == 0);
    assert(REFUSED(pantler_explain(file, NULL), EINVAL));
    assert(REFUSED(pantler_explain(999, &told), EBADF));

    assert(pantler_set_list(file, ranges, 2, &list) == 0 && (list.ranges > 0) == (connections > 0));
    assert(pantler_extend_list(file, NULL, 0, NULL) == 0);
    assert(pantler_get_list(&list) == 0 && pantler_get_list(NULL) == 0);
    assert(REFUSED(pantler_set_list(file, &backwards, 1, NULL), EINVAL));
    assert(REFUSED(pantler_set_list(file, NULL, 1, NULL), EINVAL));
    assert(REFUSED(pantler_set_list(file, ranges, (size_t)-1, NULL), EINVAL));
    /* What is no regular file is refused, and the connection stays. */
    int folder = open(dirname(words[1]), O_RDONLY);
    assert(folder >= 0);
    assert(connections ? REFUSED(pantler_set_priority(folder, 1), EINVAL) : pantler_set_priority(folder, 1) == 0);
    assert(pantler_connections() == connections);
    assert(pantler_end_list() == 0 && pantler_clear() == 0);

    /* Threads speak at once, and a child for itself, whether or not a thread speaks just then. */
    pthread_t threads[4];
    int priorities[] = {1, 2, 3, 4};
    for (int at = 0; at < 4; at++)
        assert(pthread_create(&threads[at], NULL, speak, &priorities[at]) == 0);
    for (int turn = 0; turn < 5; turn++) {
        pid_t early = fork();
        if (early == 0)
            _exit(pantler_set_priority(file, 5) != 0);
        int ended;
        assert(waitpid(early, &ended, 0) == early && ended == 0);
    }
    for (int at = 0; at < 4; at++)
        assert(pthread_join(threads[at], NULL) == 0);
    assert(pantler_get_priority(file, &priority) == 0 && (!connections || (priority > 0 && priority < 6)));
    pid_t child = fork();
    assert(child >= 0);
    if (child == 0)
        _exit(pantler_set_priority(file, 9) != 0 || pantler_connections() != connections);
    int status;
    assert(waitpid(child, &status, 0) == child && status == 0);
    puts("all calls answered");
    return 0;
}
