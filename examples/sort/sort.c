/*
 * Sorts the lines of a file that is larger than memory: sorted runs in temporary files, then merges
 * of eight runs at a time, in the order in which the runs were written.
 *
 * sort INPUT FOLDER > OUTPUT
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* Bytes of lines that are sorted in memory. */
#define RUN_BYTES (2 << 20)
/* Runs that are merged at a time. */
#define FAN 8
/* Bytes that are read at a time. */
#define PIECE (256 << 10)

/* A file that is read line by line. */
struct source {
    FILE *file;
    char *line;
    size_t size;
    ssize_t length; /* with its newline; -1 behind the last line */
};

static const char *folder;

static char *run_name(unsigned run) {
    char *name;
    if (asprintf(&name, "%s/run.%u", folder, run) < 0)
        err(1, "run.%u", run);
    return name;
}

static FILE *opened(const char *path, const char *mode) {
    FILE *file = fopen(path, mode);
    if (!file || setvbuf(file, NULL, _IOFBF, PIECE))
        err(1, "%s", path);
    return file;
}

static void next_line(struct source *source) {
    source->length = getline(&source->line, &source->size, source->file);
    if (source->length < 0 && ferror(source->file))
        err(1, "a read failed");
}

static void write_line(FILE *file, const char *line, size_t length) {
    if (fwrite(line, 1, length, file) != length)
        err(1, "a write failed");
}

static void closed(FILE *file) {
    if (fclose(file))
        err(1, "a write failed");
}

static int by_bytes(const void *one, const void *other) {
    return strcmp(*(char *const *)one, *(char *const *)other);
}

/* Writes some lines as a run, in order. */
static void write_run(unsigned run, char **lines, size_t count) {
    char *name = run_name(run);
    FILE *file = opened(name, "w");
    qsort(lines, count, sizeof *lines, by_bytes);
    for (size_t at = 0; at < count; at++) {
        write_line(file, lines[at], strlen(lines[at]));
        free(lines[at]);
    }
    closed(file);
    free(name);
}

/* Cuts the input into sorted runs, and says how many there are. */
static unsigned partition(const char *input) {
    struct source source = {.file = opened(input, "r")};
    char **lines = NULL;
    size_t count = 0, room = 0, bytes = 0;
    unsigned runs = 0;
    for (next_line(&source); source.length >= 0; next_line(&source)) {
        if (count == room) {
            room = room ? 2 * room : 4096;
            lines = realloc(lines, room * sizeof *lines);
            if (!lines)
                err(1, "%zu lines", room);
        }
        lines[count] = strdup(source.line);
        if (!lines[count++])
            err(1, "a line");
        bytes += source.length;
        if (bytes >= RUN_BYTES) {
            write_run(runs++, lines, count);
            count = bytes = 0;
        }
    }
    if (count)
        write_run(runs++, lines, count);
    closed(source.file);
    free(source.line);
    free(lines);
    return runs;
}

/* Merges runs, which are gone then. Of equal lines that of the earlier run comes first. */
static void merge(unsigned first, unsigned count, FILE *out) {
    struct source sources[FAN] = {0};
    for (unsigned at = 0; at < count; at++) {
        char *name = run_name(first + at);
        sources[at].file = opened(name, "r");
        next_line(&sources[at]);
        free(name);
    }
    for (;;) {
        struct source *least = NULL;
        for (unsigned at = 0; at < count; at++) {
            struct source *source = &sources[at];
            if (source->length >= 0 && (!least || strcmp(source->line, least->line) < 0))
                least = source;
        }
        if (!least)
            break;
        write_line(out, least->line, least->length);
        next_line(least);
    }
    for (unsigned at = 0; at < count; at++) {
        char *name = run_name(first + at);
        closed(sources[at].file);
        free(sources[at].line);
        if (unlink(name))
            err(1, "%s", name);
        free(name);
    }
}

int main(int count, char **words) {
    if (count != 3)
        errx(2, "usage: sort INPUT FOLDER > OUTPUT");
    folder = words[2];
    unsigned first = 0, end = partition(words[1]);
    while (end - first > FAN) {
        char *name = run_name(end);
        FILE *out = opened(name, "w");
        merge(first, FAN, out);
        closed(out);
        free(name);
        first += FAN;
        end++;
    }
    merge(first, end - first, stdout);
    if (fflush(stdout))
        err(1, "a write failed");
    return 0;
}
