/*
 * What a program says about the blocks of its files, to the runs and mounts of Pantler that hold
 * it. Link with -lpantler.
 *
 * Each call but pantler_connections() and pantler_refused() returns 0, or -1 and sets errno: EINVAL for a value that makes
 * no sense and for what is not a regular file, EBADF for a descriptor that is not open, ENOSPC where
 * a bound is reached (of priorities, or of calls of this user at once), EPERM where this user may
 * not, EOPNOTSUPP where that run or mount cannot, EIO where the connection failed. It succeeds if
 * one run or mount accepts it; else it had no effect.
 *
 * Without a run or mount each call succeeds and has no effect: see pantler_connections(). Calls may
 * come from several threads. A child that was forked speaks for itself. Offsets are in bytes; an
 * end is the byte after the last.
 */
#ifndef PANTLER_H
#define PANTLER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PANTLER_PRIORITY_MIN (-1024)
#define PANTLER_PRIORITY_MAX 1023
/* Room for the longest name of a policy, and the 0 behind it. */
#define PANTLER_POLICY_BYTES 32

/* Bytes of a file. */
struct pantler_range {
    int64_t first;
    int64_t end;
};

/* How far an access list is. */
struct pantler_list {
    uint64_t ranges;      /* files or ranges that are left */
    uint64_t blocks_done; /* blocks that were read, or passed over */
    uint64_t blocks_left;
    uint64_t in_flight;
    uint64_t trimmed;     /* ranges of this call that lie beyond the end of the file */
};

/* Room for the last decision about a file, as a sentence, and the 0 behind it. */
#define PANTLER_WHY_BYTES 256

/* What is cached of a file, and why. */
struct pantler_explanation {
    uint64_t bytes;        /* of the file, rounded up to a block */
    uint64_t cached_bytes; /* of the blocks that are cached */
    int priority;
    char policy[PANTLER_POLICY_BYTES];
    char why[PANTLER_WHY_BYTES]; /* the last decision about a block of it; empty for none */
};

/* How many runs and mounts take hints of this process. */
int pantler_connections(void);

/* How many hints were refused whose call had returned before, once all that were given are seen.
 * Hints that follow each other within a second go by memory that is shared with each run and mount,
 * and have no answer: pantler_set_priority(), pantler_set_policy(),
 * pantler_set_temporary_priority() and pantler_done_with(). */
int64_t pantler_refused(void);

/* The five calls of Cao, Felten and Li (OSDI 1994). Blocks of the lowest priority leave first; a
 * policy is that of one priority: "lru", "mru", and those that `pantler sim --policy help` names
 * and that need not know the future. */
int pantler_set_priority(int fd, int priority);
int pantler_get_priority(int fd, int *priority);
int pantler_set_policy(int priority, const char *policy);
int pantler_get_policy(int priority, char *policy, size_t bytes);
/* For blocks that are cached, each until it is used again or leaves. */
int pantler_set_temporary_priority(int fd, int64_t first, int64_t end, int priority);

/* These bytes are done with: the cached blocks that end there leave first, each unless it is used
 * again before. */
int pantler_done_with(int fd, int64_t first, int64_t end);

/* What is read next, in this order; no range is the whole file. This user must be allowed to read
 * it. list, which may be NULL, gets how far the access list is. */
int pantler_set_list(int fd, const struct pantler_range *ranges, size_t count,
                     struct pantler_list *list);
/* The same, behind what is on the list. */
int pantler_extend_list(int fd, const struct pantler_range *ranges, size_t count,
                        struct pantler_list *list);
int pantler_get_list(struct pantler_list *list);
int pantler_end_list(void);

/* What is cached of a file, and why, by the run of this process or the mount that the file is on. */
int pantler_explain(int fd, struct pantler_explanation *explanation);

/* Takes back all that was hinted. */
int pantler_clear(void);

#ifdef __cplusplus
}
#endif

#endif
