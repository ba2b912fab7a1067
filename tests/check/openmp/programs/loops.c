#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <omp.h>
#define N 100

/* case anti_dependence data-race */
void anti_dependence(void) {
    static int a[N], b[N];
#pragma omp parallel for
    for (int i = 0; i < N - 1; i++)
        a[i] = a[i + 1] + 1; /* wrong */ /* found */
        b[i] = a[i + 1] + 1; /* right */
}

/* case flow_dependence data-race */
void flow_dependence(void) {
    static double a[N];
#pragma omp parallel for schedule(dynamic)
    for (int i = 1; i < N; i++) {
        double left = a[i - 1]; /* wrong */ /* found */
        double left = a[i]; /* right */
        a[i] = left + 1; /* found */
    }
}

/* case output_dependence data-race */
void output_dependence(void) {
    static int a[N];
#pragma omp parallel for
    for (int i = 0; i < N; i++)
        a[i / 2] = i; /* wrong */ /* found */
        a[i] = i; /* right */
}

/* case rows data-race */
void rows(void) {
    static double a[N][N];
#pragma omp parallel for
    for (int i = 1; i < N; i++)
        for (int j = 1; j < N; j++)
            a[i][j] = a[i - 1][j] + 1; /* wrong */ /* found */
            a[i][j] = a[i][j - 1] + 1; /* right */
}

/* case collapsed data-race */
void collapsed(void) {
    static int a[N][N];
#pragma omp parallel for collapse(2) /* wrong */
#pragma omp parallel for /* right */
    for (int i = 0; i < 8; i++)
        for (int j = 1; j < N; j++)
            a[i][j] = a[i][j - 1] + 1; /* found */
}

/* case indirect data-race */
void indirect(void) {
    static int at[N], a[4 * N];
    for (int i = 0; i < N; i++) at[i] = 3 * i;
    at[50] = at[80]; /* wrong */
#pragma omp parallel for
    for (int i = 0; i < N; i++)
        a[at[i]] += i; /* found */
}

/* case private_missing data-race */
void private_missing(void) {
    static double a[N];
    double t;
#pragma omp parallel for /* wrong */
#pragma omp parallel for private(t) /* right */
    for (int i = 0; i < N; i++) {
        t = a[i] * 2; /* found */
        a[i] = t + t * t;
    }
}

/* case inner_index data-race */
void inner_index(void) {
    static double a[N][N];
    int i, j;
#pragma omp parallel for /* wrong */
#pragma omp parallel for private(j) /* right */
    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++) /* found */
            a[i][j] = i + j;
}

/* case reduction_missing data-race */
void reduction_missing(void) {
    static double a[N];
    double sum = 0;
#pragma omp parallel for /* wrong */
#pragma omp parallel for reduction(+ : sum) /* right */
    for (int i = 0; i < N; i++)
        sum += a[i]; /* found */
    a[0] = sum;
}

/* case maximum_missing data-race */
void maximum_missing(void) {
    static int a[N];
    int most = -1;
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp parallel for /* wrong */
#pragma omp parallel for reduction(max : most) /* right */
    for (int i = 0; i < N; i++)
        if (a[i] > most) most = a[i]; /* found */
    a[0] = most;
}

/* case heap data-race */
void heap(void) {
    double *a = calloc(N + 1, sizeof *a);
#pragma omp parallel for
    for (int i = 0; i < N; i++)
        a[i] = a[i + 1]; /* wrong */ /* found */
        a[i] = i; /* right */
    free(a);
}

/* case structure data-race */
void structure(void) {
    struct point { int x, y; } p = {0, 0};
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
        p.x = i; /* wrong */ /* found */
        struct point q = p; /* right */
        q.x = i; /* right */
    }
}

/* case neighbours_in_a_word data-race */
void neighbours_in_a_word(void) {
    static char a[N + 1];
#pragma omp parallel for
    for (int i = 0; i < N; i++)
        a[i] = a[i + 1]; /* wrong */ /* found */
        a[i] = (char)i; /* right */
}

/* case copied_blocks data-race */
void copied_blocks(void) {
    static int a[N][8];
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
        memset(a[i / 2], 1, sizeof a[0]); /* wrong */ /* found */
        memset(a[i], 1, sizeof a[0]); /* right */
    }
}

/* case called data-race */
static int called_last;
static void called_note(int i) {
    called_last = i; /* found */
}
void called(void) {
#pragma omp parallel for
    for (int i = 0; i < N; i++)
        called_note(i); /* wrong */
        if (i == 7) called_note(i); /* right */
}

/* case nowait data-race */
void nowait(void) {
    static int a[N], b[N];
#pragma omp parallel
    {
#pragma omp for nowait /* wrong */
#pragma omp for /* right */
        for (int i = 0; i < N; i++)
            a[i] = i; /* found */
#pragma omp for
        for (int i = 0; i < N; i++)
            b[i] = a[N - 1 - i]; /* found */
    }
}

/* case nowait_static data-race */
void nowait_static(void) {
    static int a[N], b[N];
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (int i = 0; i < N; i++)
            a[i] = i; /* found */
#pragma omp for schedule(dynamic) /* wrong */
#pragma omp for schedule(static) /* right */
        for (int i = 0; i < N; i++)
            b[i] = a[i]; /* found */
    }
}

/* case lastprivate_missing data-race */
void lastprivate_missing(void) {
    static int a[N];
    int x = 0;
#pragma omp parallel for /* wrong */
#pragma omp parallel for lastprivate(x) /* right */
    for (int i = 0; i < N; i++)
        x = i; /* found */
    a[0] = x;
}

/* case linear_missing data-race */
void linear_missing(void) {
    static int a[2 * N];
    int j = 0;
#pragma omp parallel for /* wrong */
#pragma omp parallel for linear(j : 2) /* right */
    for (int i = 0; i < N; i++) {
        a[j] = i; /* found */
        j += 2; /* found */
    }
}

/* case ordered_missing data-race */
void ordered_missing(void) {
    static int order[N];
    int n = 0;
#pragma omp parallel for ordered
    for (int i = 0; i < N; i++) {
#pragma omp ordered /* right */
        order[n++] = i; /* found */
    }
}

/* case doacross data-race */
void doacross(void) {
    static int a[N];
#pragma omp parallel for ordered(1)
    for (int i = 1; i < N; i++) {
#pragma omp ordered depend(sink : i - 1) /* right */
        a[i] = a[i - 1] + 1; /* found */
#pragma omp ordered depend(source)
    }
}

/* case lanes data-race */
void lanes(void) {
    static int a[N + 8];
#pragma omp simd safelen(8) /* wrong */
#pragma omp simd safelen(4) /* right */
    for (int i = 4; i < N; i++)
        a[i] = a[i - 4] + 1; /* found */
}

/* case lanes_of_threads data-race */
void lanes_of_threads(void) {
    static int a[N + 1], b[N + 1];
#pragma omp parallel for simd
    for (int i = 0; i < N; i++)
        a[i + 1] = a[i] + 1; /* wrong */ /* found */
        a[i + 1] = b[i] + 1; /* right */
}

/* case downwards data-race */
void downwards(void) {
    static int a[N];
#pragma omp parallel for
    for (int i = N - 1; i > 0; i -= 2)
        a[i] = a[i % 3]; /* wrong */ /* found */
        a[i] = a[i - 1]; /* right */
}

/* case unsigned_index data-race */
void unsigned_index(void) {
    static int a[N];
#pragma omp parallel for
    for (unsigned long i = 0; i < N; i++)
        a[i % 10] = 1; /* wrong */ /* found */
        a[i] = 1; /* right */
}

/* case scan data-race */
void scan(void) {
    static int a[N], b[N];
    int s = 0;
#pragma omp parallel for reduction(inscan, + : s)
    for (int i = 0; i < N; i++) {
        s += a[i];
#pragma omp scan inclusive(s)
        b[i % 2] = s; /* wrong */ /* found */
        b[i] = s; /* right */
    }
}

/* case worksharing_loop data-race */
void worksharing_loop(void) {
    static int a[N + 1], b[N + 1];
#pragma omp parallel
#pragma omp loop
    for (int i = 0; i < N; i++)
        a[i] = a[i + 1]; /* wrong */ /* found */
        a[i] = b[i + 1]; /* right */
}

/* case array_reduction data-race */
void array_reduction(void) {
    static int a[N];
    int h[4] = {0};
#pragma omp parallel for /* wrong */
#pragma omp parallel for reduction(+ : h[:4]) /* right */
    for (int i = 0; i < N; i++)
        h[i % 4] += 1; /* found */
    a[0] = h[1];
}

/* case private_without_value uninitialised-read */
void private_without_value(void) {
    static double a[N];
    double t = 1;
#pragma omp parallel for private(t) /* wrong */
#pragma omp parallel for firstprivate(t) /* right */
    for (int i = 0; i < N; i++)
        a[i] = t; /* found */
}

/* case private_in_a_branch uninitialised-read */
void private_in_a_branch(void) {
    static int a[N];
    int j, t;
#pragma omp parallel for private(t, j)
    for (int i = 0; i < N; i++) {
        if (i % 2) /* wrong */
            t = i;
        for (j = 0; j < 2; j++)
            a[i] += t; /* found */
    }
}

/* case private_array uninitialised-read */
void private_array(void) {
    static int a[N][8];
    int part[8];
#pragma omp parallel for collapse(2) private(part)
    for (int i = 0; i < N; i++)
        for (int j = 0; j < 8; j++) {
            part[j] = i;
            part[(j + 1) % 8] = i; /* right */
            a[i][j] = part[(j + 1) % 8]; /* found */
        }
}

/* case product_as_sum wrong-reduction */
void product_as_sum(void) {
    static double a[N];
    double all = 1;
    for (int i = 0; i < N; i++) a[i] = 1;
#pragma omp parallel for reduction(+ : all) /* wrong */ /* found */
#pragma omp parallel for reduction(* : all) /* right */
    for (int i = 0; i < N; i++)
        all *= a[i]; /* found */
    a[0] = all;
}

/* case largest_as_sum wrong-reduction */
void largest_as_sum(void) {
    static int a[N];
    int most = 0;
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp parallel for reduction(+ : most) /* wrong */ /* found */
#pragma omp parallel for reduction(max : most) /* right */
    for (int i = 0; i < N; i++) {
        if (a[i] > most) /* found */
            most = a[i];
    }
    a[0] = most;
}

struct span {
    double low, high;
};
#pragma omp declare reduction(spans:struct span                                                                        \
                              : omp_out.low = omp_in.low < omp_out.low ? omp_in.low : omp_out.low,                     \
                                omp_out.high = omp_in.high > omp_out.high ? omp_in.high : omp_out.high)                \
    initializer(omp_priv = (struct span){1e9, -1e9})

/* case own_reduction data-race */
void own_reduction(void) {
    struct span s = {1e9, -1e9};
    static double a[N];
    for (int i = 0; i < N; i++) a[i] = i;
#pragma omp parallel for /* wrong */
#pragma omp parallel for reduction(spans : s) /* right */
    for (int i = 0; i < N; i++) {
        if (a[i] < s.low) s.low = a[i];   /* found */
        if (a[i] > s.high) s.high = a[i]; /* found */
    }
}

/* case last_without_value uninitialised-read */
int last_without_value(void) {
    int a[N], k = 0;
#pragma omp parallel for lastprivate(k)
    for (int i = 0; i < N; i++) {
        k = k + 1; /* wrong */ /* found */
        k = i + 1; /* right */
        a[i] = k;
    }
    return k + a[3];
}

/* case read_again_and_again data-race */
void read_again_and_again(void) {
    static double a[2 * N], sums[N];
#pragma omp parallel for
    for (int i = 0; i < 4; i++) {
        for (int turn = 0; turn < 3; turn++)
            for (int k = 0; k < 2 * N; k++) sums[i] += a[k]; /* found */
        if (i == 3) a[101] = sums[i]; /* wrong */ /* found */
    }
}

/* case written_again_and_again data-race */
void written_again_and_again(void) {
    static int a[4][2 * N];
#pragma omp parallel for
    for (int i = 0; i < 4; i++) {
        for (int turn = 0; turn < 3; turn++)
            for (int k = 0; k < 2 * N; k++) a[i][k] += turn; /* found */
        a[0][101] += i; /* wrong */ /* found */
        a[i][101] += i; /* right */
    }
}

/* case parts_of_what_was_seen data-race */
void parts_of_what_was_seen(void) {
    static int64_t a[2 * N], sums[4];
#pragma omp parallel for
    for (int i = 0; i < 4; i++) {
        for (int turn = 0; turn < 3; turn++)
            for (int k = 0; k < 2 * N; k++) sums[i] += a[k]; /* found */
        if (i == 3) ((volatile char *)a)[1003] = 1; /* wrong */ /* found */
    }
}

/* case static_of_other_length data-race */
void static_of_other_length(void) {
    static int a[N], b[N];
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (int i = 0; i < N; i++) a[i] = i; /* found */
#pragma omp for schedule(static)
        for (int i = 0; i < N / 2; i++) /* wrong */
        for (int i = 0; i < N; i++) /* right */
            b[i] += a[i]; /* found */
    }
}

/* case static_from_another_start data-race */
void static_from_another_start(void) {
    static int a[N + 1], b[N + 1];
    int first = 1; /* wrong */
    int first = 0; /* right */
#pragma omp parallel
    {
#pragma omp for schedule(static) nowait
        for (int i = 0; i < N; i++) a[i] = i; /* found */
#pragma omp for schedule(static)
        for (int i = first; i < N + first; i++)
            b[i] += a[i]; /* found */
    }
}

/* case static_in_chunks data-race */
void static_in_chunks(void) {
    static int a[N], b[N];
#pragma omp parallel
    {
#pragma omp for schedule(static, 8) nowait /* right */
#pragma omp for schedule(dynamic, 8) nowait /* wrong */
        for (int i = 0; i < N; i++) a[i] = i; /* found */
#pragma omp for schedule(static, 8)
        for (int i = 0; i < N / 2; i++)
            b[i] += a[i]; /* found */
    }
}
