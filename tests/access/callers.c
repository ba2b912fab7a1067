/* Accesses at a known depth: in functions that save registers and others, in a loop, and behind a test. */
#include <stdio.h>

static double data[600];
static int turns;

__attribute__((noinline)) static double leaf(double *a, int n) {
    double s = 0, t = 1;
    for (int i = 0; i < n; i++) {
        s += a[i] * t;
        t = a[i + 1] - s;
    }
    return s;
}

__attribute__((noinline)) static double middle(double *a, double *b, int n, double f) {
    double x = leaf(a, n), y = b[n] * f;
    if (x > y) b[n + 1] = x - y;
    turns++;
    return x * y + a[0] + leaf(b, n + 1) * f;
}

int main(void) {
    double s = 0;
    for (int k = 0; k < 20; k++) s += middle(data + k, data + 300 - k, 10 + k, 0.5 * k);
    printf("%g %d\n", s, turns);
    return 0;
}
