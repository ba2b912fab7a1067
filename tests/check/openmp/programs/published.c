#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define N 64

/* case largest data-race */
void largest(void) {
    int v[N] = {0}, best = 0;
#pragma omp parallel for
    for (int i = 1; i < N; i++) {
        v[i] = i * 7 % N; /* right */
#pragma omp critical
        if (v[i] >= v[best]) /* found */
            best = i;
        v[i] = i * 7 % N; /* wrong */ /* found */
    }
}

struct item {
    int value;
    struct item *next;
};

/* case list data-race */
void list(void) {
    struct item *head = NULL;
    int longest = 0;
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
        struct item *n = malloc(sizeof *n);
        n->value = i; /* right */
#pragma omp critical(of_list)
        {
            n->next = head;
            if (head && head->value > longest) /* found */
                longest = head->value;
            head = n;
        }
        n->value = i; /* wrong */ /* found */
    }
}

/* case queue data-race */
void queue(void) {
    static int filled[N], slots[N], out[N];
    int head = 0, tail = 0;
    omp_lock_t lock;
    omp_init_lock(&lock);
#pragma omp parallel num_threads(4)
    {
#pragma omp for nowait
        for (int i = 0; i < N; i++) {
            filled[i] = i + 1; /* right */
            omp_set_lock(&lock);
            slots[tail++] = i;
            omp_unset_lock(&lock);
            filled[i] = i + 1; /* wrong */ /* found */
        }
        for (int left = N; left > 0; left--) {
            int at = -1;
            omp_set_lock(&lock);
            if (head < tail) at = slots[head++];
            omp_unset_lock(&lock);
            if (at >= 0) out[at] = filled[at]; /* found */
        }
    }
}

/* case last_one data-race */
void last_one(void) {
    static double part[N];
    double all = 0;
    int count = 0;
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
        int last;
        part[i] = i; /* right */
#pragma omp critical
        last = ++count == N;
        part[i] = i; /* wrong */ /* found */
        if (last)
            for (int k = 0; k < N; k++) all += part[k]; /* found */
    }
}

/* case grown data-race */
void grown(void) {
    int *shared = NULL, length = 0; /* wrong */
#pragma omp parallel
    {
        int *shared = NULL, length = 0; /* right */
        int room = 0;
#pragma omp for
        for (int i = 0; i < N; i++) {
            if (length == room) { /* found */
                room = room ? 2 * room : 1;
                int *more = malloc(room * sizeof *more);
                free(shared); /* found */
                shared = more; /* found */
            }
            length++; /* found */
        }
    }
}

/* case grown_for_all data-race */
void grown_for_all(void) {
    int *list[N] = {0};
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
        int *own = malloc(4 * sizeof *own);
        own[0] = i;
        own = realloc(own, 400 * sizeof *own);
        own[300] = own[0];
        list[i] = own; /* found */
        if (i) own = list[i - 1]; /* wrong */ /* found */
    }
}

/* case whole_words data-race */
void whole_words(void) {
    static uint64_t bits[N];
#pragma omp parallel for schedule(dynamic, 64) /* wrong */
    for (int i = 0; i < 64 * N; i++)
#pragma omp atomic /* right */
        bits[i / 64] |= 1ull << i % 64; /* found */
}

/* case parts_of_words data-race */
void parts_of_words(void) {
    static uint64_t bits[N];
    int part = 96;
#pragma omp parallel for schedule(static, part) /* wrong */
    for (int i = 0; i < 64 * N; i++)
#pragma omp atomic /* right */
        bits[i / 64] |= 1ull << i % 64; /* found */
}

/* case lanes_under_a_lock data-race */
void lanes_under_a_lock(void) {
    static int sums[N];
#pragma omp parallel for
    for (int k = 0; k < 8; k++) {
#pragma omp critical(of_sums) /* right */
#pragma omp simd
        for (int i = 0; i < N; i++) sums[i] += k; /* found */
    }
}

/* case region_under_a_lock data-race */
void region_under_a_lock(void) {
    static int sums[N + 1];
#pragma omp parallel for num_threads(2)
    for (int k = 0; k < 8; k++) {
#pragma omp critical(of_sums)
#pragma omp parallel for
        for (int i = 0; i < N; i++) {
            sums[i + 1] += k; /* wrong */ /* found */
            sums[i] += k; /* found */
        }
    }
}

/* case grown_in_two_loops data-race */
void grown_in_two_loops(void) {
    int *rows = calloc(4 * N, sizeof *rows); /* wrong */
#pragma omp parallel
    {
        int *rows = calloc(4 * N, sizeof *rows); /* right */
#pragma omp for
        for (int i = 0; i < N; i++) rows[i] = i;
#pragma omp for
        for (int i = 0; i < N; i++) rows[i / 2] += i; /* found */
    }
}
