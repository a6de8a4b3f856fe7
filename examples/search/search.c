/*
 * Searches texts by a small index, as glimpse does: the index says of each word in which parts of
 * the texts it is, and a query reads the index, and then these parts.
 *
 * search index INDEX < NAMES        NAMES: the texts, one in a line
 * search INDEX WORD                 the lines that contain the word
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <err.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* The texts are divided into so many parts. */
#define PARTS 128
/* Longer words are cut, and shorter ones than this are not kept. */
#define WORD_MAX 31
#define WORD_MIN 3
#define WORDS_MAX (1 << 20)
/* Bytes that are read at a time. */
#define PIECE (64 << 10)

/* A word, and in which parts it is. */
struct word {
    char text[WORD_MAX + 1];
    char parts[PARTS + 1]; /* '1' or '0' each */
};

static FILE *opened(const char *path, const char *mode) {
    FILE *file = fopen(path, mode);
    if (!file || setvbuf(file, NULL, _IOFBF, PIECE))
        err(2, "%s", path);
    return file;
}

static char *beside(const char *index, const char *what) {
    char *path;
    if (asprintf(&path, "%s.%s", index, what) < 0)
        err(2, "%s", index);
    return path;
}

/* The next word of a text, in small letters; its length, 0 at the end. */
static size_t next_word(FILE *text, char word[WORD_MAX + 1]) {
    size_t length = 0;
    for (int letter; (letter = getc_unlocked(text)) != EOF;) {
        if (isalnum(letter) || letter == '_') {
            if (length < WORD_MAX)
                word[length++] = tolower(letter);
        } else if (length >= WORD_MIN) {
            break;
        } else {
            length = 0;
        }
    }
    word[length] = 0;
    return length;
}

static int by_text(const void *one, const void *other) {
    return strcmp((*(struct word *const *)one)->text, (*(struct word *const *)other)->text);
}

/* Notes the words of a text. */
static void note(const char *path, unsigned part, struct word **words, size_t *count) {
    FILE *text = opened(path, "r");
    char word[WORD_MAX + 1];
    while (next_word(text, word)) {
        ENTRY *found = hsearch((ENTRY){.key = word}, FIND);
        if (!found) {
            struct word *new = calloc(1, sizeof *new);
            if (!new || *count == WORDS_MAX)
                errx(2, "more than %zu words", *count);
            strcpy(new->text, word);
            memset(new->parts, '0', PARTS);
            words[(*count)++] = new;
            found = hsearch((ENTRY){.key = new->text, .data = new}, ENTER);
        }
        ((struct word *)found->data)->parts[part] = '1';
    }
    fclose(text);
}

static void write_word(FILE *out, const struct word *word) {
    fputs(word->text, out);
    for (unsigned part = 0; part < PARTS; part++)
        if (word->parts[part] == '1')
            fprintf(out, " %u", part);
    putc('\n', out);
}

/* Writes the index: words in order, and beside it the names of the texts. */
static int make_index(const char *index) {
    char **names = NULL, *line = NULL;
    size_t texts = 0, count = 0, size = 0;
    for (ssize_t length; (length = getline(&line, &size, stdin)) > 0; texts++) {
        line[strcspn(line, "\n")] = 0;
        names = realloc(names, (texts + 1) * sizeof *names);
        if (!names || !(names[texts] = strdup(line)))
            err(2, "%zu names", texts);
    }
    struct word **words = calloc(WORDS_MAX, sizeof *words);
    if (!words || !hcreate(2 * WORDS_MAX))
        err(2, "%d words", WORDS_MAX);
    FILE *out = opened(beside(index, "names"), "w");
    for (size_t text = 0; text < texts; text++) {
        unsigned part = text * PARTS / texts;
        note(names[text], part, words, &count);
        fprintf(out, "%u %s\n", part, names[text]);
    }
    if (fclose(out))
        err(2, "%s", index);
    qsort(words, count, sizeof *words, by_text);
    out = opened(beside(index, "words"), "w");
    for (size_t at = 0; at < count; at++)
        write_word(out, words[at]);
    if (fclose(out))
        err(2, "%s", index);
    return 0;
}

/* In which parts a word is, as part of a longer one, too. */
static void look_up(FILE *index, const char *word, char parts[PARTS]) {
    char *line = NULL;
    size_t size = 0;
    memset(parts, '0', PARTS);
    while (getline(&line, &size, index) > 0) {
        char *at = strchr(line, ' '), *end;
        if (!at)
            errx(2, "the index is not whole");
        *at++ = 0;
        if (!strstr(line, word))
            continue;
        for (unsigned long part; part = strtoul(at, &end, 10), end != at; at = end) {
            if (part >= PARTS)
                errx(2, "the index is not whole");
            parts[part] = '1';
        }
    }
    free(line);
}

/* Prints the lines of a text that contain a word. */
static int print_lines(FILE *text, const char *name, const char *word) {
    char *line = NULL;
    size_t size = 0;
    int found = 0;
    while (getline(&line, &size, text) > 0)
        if (strcasestr(line, word)) {
            printf("%s: %s", name, line);
            found = 1;
        }
    free(line);
    return found;
}

static int query(const char *index, char *word) {
    char parts[PARTS], *line = NULL;
    size_t size = 0;
    int found = 0;
    for (char *letter = word; *letter; letter++)
        *letter = tolower(*letter);
    FILE *words = opened(beside(index, "words"), "r");
    FILE *names = opened(beside(index, "names"), "r");
    look_up(words, word, parts);
    while (getline(&line, &size, names) > 0) {
        char *name;
        unsigned long part = strtoul(line, &name, 10);
        if (part >= PARTS || *name++ != ' ')
            errx(2, "the names are not whole");
        name[strcspn(name, "\n")] = 0;
        if (parts[part] == '1') {
            FILE *text = opened(name, "r");
            found |= print_lines(text, name, word);
            fclose(text);
        }
    }
    return !found;
}

int main(int count, char **words) {
    if (count != 3)
        errx(2, "usage: search index INDEX < NAMES, or search INDEX WORD");
    return strcmp(words[1], "index") ? query(words[1], words[2]) : make_index(words[2]);
}
