/* Edges as text and as pairs of numbers, for systems that read pairs only.
 *
 * Contract: `write` turns pairs of 32-bit ids into lines `source TAB target`. `read` turns such lines into pairs, as a user
 * of such a system would write it: one thread, blocks of 4 MiB, one look at each byte, no further checks of the lines.
 *
 *   cc -O3 -march=native edge_text.c -o edge_text
 *   edge_text write PAIRS TEXT
 *   edge_text read TEXT PAIRS
 *
 * Bounds: two blocks in memory.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 4 << 20, NUMBER_BYTES = 11 };

static FILE *opened(const char *name, const char *mode) {
    FILE *file = fopen(name, mode);
    if (!file) { perror(name); exit(3); }
    /* Blocks are large enough; an additional buffer would only copy them. */
    setvbuf(file, NULL, _IONBF, 0);
    return file;
}

static void put(FILE *file, const void *bytes, size_t count) {
    if (fwrite(bytes, 1, count, file) != count) { perror("write"); exit(3); }
}

static char *digits(char *to, uint32_t number) {
    char turned[NUMBER_BYTES];
    int count = 0;
    do turned[count++] = '0' + number % 10; while (number /= 10);
    while (count) *to++ = turned[--count];
    return to;
}

static void write_text(FILE *pairs, FILE *text) {
    uint32_t *in = malloc(BLOCK);
    char *out = malloc(BLOCK / sizeof *in * NUMBER_BYTES);
    size_t got;
    while ((got = fread(in, sizeof *in, BLOCK / sizeof *in, pairs)) > 0) {
        char *to = out;
        for (size_t at = 0; at < got; at += 2) {
            to = digits(to, in[at]);
            *to++ = '\t';
            to = digits(to, in[at + 1]);
            *to++ = '\n';
        }
        put(text, out, to - out);
    }
}

static void read_text(FILE *text, FILE *pairs) {
    char *in = malloc(BLOCK);
    uint32_t *out = malloc(BLOCK * sizeof *out);
    uint32_t number = 0;
    int is_number = 0;
    size_t got;
    while ((got = fread(in, 1, BLOCK, text)) > 0) {
        uint32_t *to = out;
        for (size_t at = 0; at < got; at++) {
            unsigned digit = (unsigned char)in[at] - '0';
            if (digit < 10) {
                number = number * 10 + digit;
                is_number = 1;
            } else if (is_number) {
                *to++ = number;
                number = is_number = 0;
            }
        }
        put(pairs, out, (to - out) * sizeof *out);
    }
    if (is_number) put(pairs, &number, sizeof number);
}

int main(int count, char **words) {
    if (count == 4 && !strcmp(words[1], "write")) {
        write_text(opened(words[2], "rb"), opened(words[3], "wb"));
    } else if (count == 4 && !strcmp(words[1], "read")) {
        read_text(opened(words[2], "rb"), opened(words[3], "wb"));
    } else {
        fputs("usage: edge_text write|read FROM TO\n", stderr);
        return 2;
    }
    return 0;
}
