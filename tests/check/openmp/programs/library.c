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
        for (int i = 0; i < N; i++) a[i] = rand_r(&state); /* found */
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

/* case own_text data-race */
#include <time.h>
void own_text(void) {
    static char lines[N][16];
    static int sums[N];
    for (int i = 0; i < N; i++) snprintf(lines[i], 16, "%d,%d", i, i + 1);
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
        char *rest = NULL;
        for (char *word = strtok(lines[i], ","); word; word = strtok(NULL, ",")) /* wrong */ /* found */
            for (char *word = strtok_r(lines[i], ",", &rest); word; word = strtok_r(NULL, ",", &rest)) /* right */
                sums[i] += atoi(word);
    }
}

/* case own_time data-race */
void own_time(void) {
    static int years[N];
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
        time_t seconds = i * 40000000L;
        struct tm room, *parts = &room;
        parts = gmtime(&seconds); /* wrong */ /* found */
        parts = gmtime_r(&seconds, &room); /* right */
        years[i] = parts->tm_year; /* found */
    }
}

/* case own_numbers data-race */
void own_numbers(void) {
    double sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < N; i++) {
        unsigned short state[3] = {1, 2, (unsigned short)i};
        sum += drand48(); /* wrong */ /* found */
        sum += erand48(state); /* right */
    }
}

/* case environment data-race */
void environment(void) {
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
        if (i == 5) setenv("WEFT_TEST_OF_CHECK", "1", 1); /* wrong */ /* found */
        if (getenv("WEFT_TEST_OF_CHECK")) puts(""); /* found */
    }
}
