/* Loops over an array of which a part is wanted: in steps of all kinds, forth and back, short and long. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1 << 18 };
static double sums[8];

__attribute__((noinline)) static void forth(double *a, const double *b, long from, long to) {
    for (long i = from; i < to; i++) a[i] = 0.25 * (b[i - 1] + b[i + 1]) + 0.5 * a[i];
}

__attribute__((noinline)) static void back(float *a, const float *b, long from, long to) {
    for (long i = to; i-- > from;) a[i] = b[i] * 0.5f + a[i] * 0.25f;
}

__attribute__((noinline)) static double strides(const double *a, long from, long to, long by) {
    double s = 0;
    for (long i = from; i < to; i += by) s += a[i];
    return s;
}

__attribute__((noinline)) static double third(const double *a, long from, long to) {
    double s = 0;
    for (long i = from; i < to; i += 3) s += a[i] * a[i + 1];
    return s;
}

__attribute__((noinline)) static long bytes(unsigned char *a, long from, long to) {
    long found = 0;
    for (long i = from; i < to; i++) {
        found += a[i] == 7;
        a[i] ^= 1;
    }
    return found;
}

__attribute__((noinline)) static long until(const int *a, long from, int what) {
    long i = from;
    while (a[i] != what) i += 2;
    return i;
}

int main(int argc, char **argv) {
    uint64_t random = 7;
    char *memory = aligned_alloc(4096, 6 * N * 8L);
    double *a = (double *)memory, *b = a + N;
    float *f = (float *)(b + N), *g = (float *)(b + 2 * N);
    int *c = (int *)(b + 3 * N);
    unsigned char *d = (unsigned char *)(b + 4 * N);
    for (long i = 0; i < N; i++) {
        a[i] = (double)(i % 101), b[i] = (double)(i % 47);
        f[i] = (float)(i % 7), g[i] = (float)(i % 11);
        c[i] = 3, d[i] = (unsigned char)i;
    }
    char *const arrays[] = {(char *)a, (char *)b, (char *)f, (char *)g, (char *)c, (char *)d};
    int which = argc > 1 ? atoi(argv[1]) : 0;
    const size_t sizes[] = {8, 8, 4, 4, 4, 1};
    void (*wanted)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "wanted");
    if (wanted) wanted(arrays[which] + N / 2 * sizes[which] + (argc > 2 ? atoi(argv[2]) : 0), 8192);
    long found = 0;
    for (int k = 0; k < 40; k++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        long from = (long)(random >> 33) % (N - 9000) + 8, to = from + (long)(random >> 20) % (k % 3 ? 8000 : 90) + 1;
        if (k % 2) from = N / 2 - 700 - k * 37, to = from + 5000;
        forth(a, b, from, to), forth(b, a, from, to);
        back(f, g, from, to), back(g, f, from, to);
        sums[0] += strides(a, from, to, 1) + strides(a, from, to, 7) + strides(b, from, to, 64);
        sums[1] += third(a, from, to);
        found += bytes(d, from, to);
        c[from + ((to - from) & ~1L)] = -k;
        found += until(c, from, -k);
    }
    printf("%a %a %a %ld\n", sums[0], sums[1], (double)f[N / 2], found);
    return 0;
}
