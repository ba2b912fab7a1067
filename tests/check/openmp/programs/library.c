#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define N 40

/* case printed_into data-race */
void printed_into(void) {
    char text[64];
    size_t length[N];
#pragma omp parallel for /* wrong */
#pragma omp parallel for private(text) /* right */
    for (int i = 0; i < N; i++) {
        sprintf(text, "%d", i); /* found */
        length[i] = strlen(text); /* found */
    }
}

/* case largest_word data-race */
void largest_word(void) {
    char words[N][8], most[8] = "";
    for (int i = 0; i < N; i++) snprintf(words[i], sizeof words[i], "%d", i * 7);
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
#pragma omp critical /* right */
        if (strcmp(words[i], most) > 0) /* found */
            strcpy(most, words[i]); /* found */
    }
}

/* case appended data-race */
void appended(void) {
    char text[2 * N] = "";
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
#pragma omp critical /* right */
        strcat(text, "."); /* found */
    }
}

static int smaller(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* case sorted_halves data-race */
void sorted_halves(void) {
    int a[N];
    for (int i = 0; i < N; i++) a[i] = N - i;
#pragma omp parallel sections
    {
        qsort(a, N / 2 + 1, sizeof *a, smaller); /* wrong */ /* found */
        qsort(a, N / 2, sizeof *a, smaller); /* right */
#pragma omp section
        qsort(a + N / 2, N / 2, sizeof *a, smaller); /* found */
    }
}

/* case seed data-race */
void seed(void) {
    int a[N];
#pragma omp parallel
    {
        static unsigned state = 1; /* wrong */
        unsigned state = 1; /* right */
#pragma omp for
        for (int i = 0; i < N; i++)
            a[i] = rand_r(&state); /* found */
    }
}

/* case shown data-race */
void shown(void) {
    static char name[N] = "one";
#pragma omp parallel sections
    {
        printf("%3d%% %-*.1f %s\n", 40, 8, 2.5, name); /* wrong */ /* found */
        printf("%3d%% %-*.1f\n", 40, 8, 2.5); /* right */
#pragma omp section
        strcpy(name, "two"); /* found */
    }
}

/* case beginning_shown data-race */
void beginning_shown(void) {
    static char name[N] = "abcdef";
#pragma omp parallel sections
    {
        fprintf(stdout, "%ld %.*s\n", 7L, 4, name); /* wrong */ /* found */
        fprintf(stdout, "%ld %.*s\n", 7L, 3, name); /* right */
#pragma omp section
        name[3] = 'D'; /* found */
    }
}
