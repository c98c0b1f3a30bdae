/* A plain C prototype of the graph kernels over the tiles of `outcore graph convert`: the reference for their speed.
 *
 * Contract: the minimum of work. Each thread reads the next MiB of the file `tiles` with O_DIRECT and processes it. There
 * are two threads per core, so that one computes while the other waits. Checksums are not verified, frontiers are not
 * read by lists, and ranks are sums of doubles in the order in which the threads finish.
 *
 *   cc -O3 -march=native -pthread graph_tiles.c -o graph_tiles
 *   graph_tiles cc|bfs|pagerank|kcore GRAPH VERTICES DIRECTED [ARGUMENT]
 *
 * The argument is the source, the number of iterations, or k. Bounds: the state of the kernel and a MiB per thread.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 64 << 10, PIECE = 1 << 20, THREADS = 4 };

typedef uint32_t u32;
static int file;
static off_t length;
static _Atomic off_t next_at;
static u32 n;
static int directed;
static void (*work)(u32 row_base, u32 col_base, const u32 *edges, u32 count);

static void *run(void *unused) {
    char *buffer = aligned_alloc(4096, PIECE);
    off_t at;
    while ((at = atomic_fetch_add(&next_at, PIECE)) < length) {
        ssize_t got = pread(file, buffer, PIECE, at);
        if (got < 0) { perror("pread"); exit(3); }
        for (ssize_t chunk = 0; chunk + CHUNK <= got; chunk += CHUNK) {
            const char *p = buffer + chunk + 16;
            u32 segments = *(u32 *)(buffer + chunk + 12);
            while (segments--) {
                u32 rows = *(uint16_t *)p, cols = *(uint16_t *)(p + 2), count = *(u32 *)(p + 4);
                work(rows << 16, cols << 16, (const u32 *)(p + 8), count);
                p += 8 + 4 * (size_t)count;
            }
        }
    }
    free(buffer);
    return unused;
}

static void pass(void) {
    pthread_t threads[THREADS];
    next_at = 0;
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, run, 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
}

#define EACH(row, col) \
    for (u32 i = 0, row, col; i < count && (row = rows + (e[i] & 0xffff), col = cols + (e[i] >> 16), 1); i++)

static _Atomic u32 *state, *degree;

static u32 find(u32 v) {
    for (;;) {
        u32 p = atomic_load_explicit(&state[v], memory_order_relaxed);
        u32 g = atomic_load_explicit(&state[p], memory_order_relaxed);
        if (p == g) return p;
        atomic_store_explicit(&state[v], g, memory_order_relaxed);
        v = g;
    }
}

static void unite(u32 rows, u32 cols, const u32 *e, u32 count) {
    EACH(row, col) {
        u32 a = row, b = col;
        for (;;) {
            a = find(a), b = find(b);
            if (a == b) break;
            u32 low = a < b ? a : b, high = a < b ? b : a, expected = high;
            if (atomic_compare_exchange_weak(&state[high], &expected, low)) break;
        }
    }
}

static u32 level;
static _Atomic u32 changed;

static inline void reach(u32 from, u32 to) {
    if (atomic_load_explicit(&state[from], memory_order_relaxed) == level &&
        atomic_load_explicit(&state[to], memory_order_relaxed) == UINT32_MAX) {
        atomic_store_explicit(&state[to], level + 1, memory_order_relaxed);
        atomic_store_explicit(&changed, 1, memory_order_relaxed);
    }
}

static void search(u32 rows, u32 cols, const u32 *e, u32 count) {
    EACH(row, col) {
        reach(col, row);
        if (!directed) reach(row, col);
    }
}

static double *flow;
static _Atomic uint64_t *sum;

static void add(u32 v, double x) {
    uint64_t old = atomic_load_explicit(&sum[v], memory_order_relaxed), new;
    do {
        double value;
        memcpy(&value, &old, 8);
        value += x;
        memcpy(&new, &value, 8);
    } while (!atomic_compare_exchange_weak_explicit(&sum[v], &old, new, memory_order_relaxed, memory_order_relaxed));
}

static void rank_edges(u32 rows, u32 cols, const u32 *e, u32 count) {
    u32 open = UINT32_MAX;
    double total = 0;
    EACH(row, col) {
        if (row != open) {
            if (open != UINT32_MAX) add(open, total);
            open = row, total = 0;
        }
        total += flow[col];
        if (!directed && row != col) add(col, flow[row]);
    }
    if (open != UINT32_MAX) add(open, total);
}

static void count_out(u32 rows, u32 cols, const u32 *e, u32 count) {
    (void)rows;
    EACH(row, col) {
        atomic_fetch_add_explicit(&degree[col], 1, memory_order_relaxed);
        if (!directed && row != col) atomic_fetch_add_explicit(&degree[row], 1, memory_order_relaxed);
    }
}

static void count_both(u32 rows, u32 cols, const u32 *e, u32 count) {
    EACH(row, col) {
        if (state[row] || state[col]) continue;
        atomic_fetch_add_explicit(&degree[col], 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&degree[row], 1, memory_order_relaxed);
    }
}

int main(int argc, char **argv) {
    if (argc < 5) return fprintf(stderr, "usage: %s KERNEL GRAPH VERTICES DIRECTED [ARGUMENT]\n", argv[0]), 2;
    char path[4096];
    snprintf(path, sizeof path, "%s/tiles", argv[2]);
    n = strtoul(argv[3], 0, 10), directed = atoi(argv[4]);
    u32 argument = argc > 5 ? strtoul(argv[5], 0, 10) : 0;
    struct stat facts;
    if ((file = open(path, O_RDONLY | O_DIRECT)) < 0 || fstat(file, &facts)) return perror(path), 3;
    length = facts.st_size;
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    state = calloc(n, 4), degree = calloc(n, 4);
    double answer = 0;
    if (!strcmp(argv[1], "cc")) {
        for (u32 v = 0; v < n; v++) state[v] = v;
        work = unite, pass();
        for (u32 v = 0; v < n; v++) state[v] = state[state[v]], answer += state[v] == v;
    } else if (!strcmp(argv[1], "bfs")) {
        for (u32 v = 0; v < n; v++) state[v] = UINT32_MAX;
        state[argument] = 0, work = search;
        for (changed = 1; changed; level++) changed = 0, pass();
        for (u32 v = 0; v < n; v++) answer += state[v] != UINT32_MAX;
    } else if (!strcmp(argv[1], "pagerank")) {
        flow = malloc(8 * (size_t)n), sum = calloc(n, 8);
        work = count_out, pass();
        for (u32 v = 0; v < n; v++) flow[v] = 1.0 / n / (degree[v] ? degree[v] : 1);
        for (u32 turn = 0; turn < argument; turn++) {
            double dangling = 0;
            for (u32 v = 0; v < n; v++) if (!degree[v]) dangling += flow[v];
            work = rank_edges, pass();
            answer = 0;
            for (u32 v = 0; v < n; v++) {
                double arrived;
                uint64_t bits = sum[v];
                memcpy(&arrived, &bits, 8), sum[v] = 0;
                double rank = 0.15 / n + 0.85 * (arrived + dangling / n);
                answer = rank > answer ? rank : answer;
                flow[v] = rank / (degree[v] ? degree[v] : 1);
            }
        }
    } else if (!strcmp(argv[1], "kcore")) {
        for (int again = 1; again;) {
            memset((void *)degree, 0, 4 * (size_t)n), again = 0;
            work = count_both, pass();
            for (u32 v = 0; v < n; v++) if (!state[v] && degree[v] < argument) state[v] = 1, again = 1;
        }
        for (u32 v = 0; v < n; v++) answer += !state[v];
    } else return fprintf(stderr, "no kernel is called %s\n", argv[1]), 2;
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("%s\t%.9g\t%.3f s\n", argv[1], answer, to.tv_sec - from.tv_sec + (to.tv_nsec - from.tv_nsec) * 1e-9);
    return 0;
}
