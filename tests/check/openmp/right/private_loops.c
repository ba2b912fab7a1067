/* Loop variables that are private, in the styles of old and new code: nothing is read without a value. */
#include <stdio.h>
#define N 20
static double a[N][N];

static void own_in_the_head(void) {
    int i = 0, j = 0;
#pragma omp parallel for private(i, j)
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) a[i][j] = i + j;
    a[0][0] += i + j;
}

static void own_in_both_heads(void) {
    int i, j, t;
#pragma omp parallel for collapse(2) private(i, j, t)
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            t = i * j;
            a[i][j] += t;
        }
}

static void outer_ones(void) {
    int i, j, k;
    double t;
#pragma omp parallel private(i, j, k, t)
    {
#pragma omp for
        for (i = 0; i < N; i++) {
            for (j = 0, t = 0; j < N; j++) t += a[i][j];
            for (k = N - 1; k >= 0; k--) a[i][k] -= t / N;
        }
    }
}

static void last_values(void) {
    int i;
    long last;
#pragma omp parallel for lastprivate(last, i)
    for (i = 0; i < N; i += 3) last = i;
#pragma omp simd private(last)
    for (int last = 0; last < N; last++) a[1][last] = last;
    a[0][1] = i + last;
}

static void pointers_and_steps(void) {
    double *p = NULL, *q = NULL;
    unsigned char u = 7;
#pragma omp parallel for private(p, q, u)
    for (double *p = &a[2][0]; p < &a[2][N]; p += 2) {
        q = p;
        for (unsigned char u = 0; u < 3; u++) *q += u;
    }
#pragma omp parallel for private(u) schedule(static, 3)
    for (int k = N - 1; k > 0; k -= 2) {
        for (u = 0; u < 2; ++u) a[3][k] = u;
    }
    a[0][2] = u + (p == q);
}

static void tasks(void) {
    int i = 3, x;
#pragma omp parallel private(i)
#pragma omp single private(x)
    for (int i = 0; i < N; i++) {
        x = i;
#pragma omp task firstprivate(x) private(i)
        for (int i = 0; i < 2; i++) a[4][x] += i;
    }
#pragma omp taskloop private(i)
    for (int i = 0; i < N; i++) a[5][i] = i;
    a[0][3] = i;
}

int main(void) {
    own_in_the_head(), own_in_both_heads(), outer_ones(), last_values(), pointers_and_steps(), tasks();
    double sum = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) sum += a[i][j];
    printf("%.6f\n", sum);
    return 0;
}
