/* Three levels of fork and join. */
#include <stdio.h>

static int leaf(int n) {
    int a = n;
    a += 1;
    a += 2;
    return a;
}

static int middle(int n) {
    int b = n, got = 0;
#pragma omp task shared(got)
    {
        int c = n * 10;
        got = leaf(c);
        got += 1;
    }
    b += 1;
#pragma omp taskwait
    b += got;
    return b;
}

int main(void) {
    int total = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        int x = 0, y = 0;
#pragma omp task shared(x)
        {
            int d = 1;
            x = middle(d);
            x += 1;
        }
#pragma omp task shared(y)
        {
            int e = 2;
            y = middle(e);
            y += 1;
        }
#pragma omp taskwait
        total = x + y;
    }
    printf("total %d\n", total);
    return 0;
}
