// Untied tasks whose body is one statement with a call: clang puts a beginning of its own before it, at the same line.
#include <stdio.h>
#include <unistd.h>

enum { TASKS = 4 };
static int got[TASKS];
static volatile int go;

static int leaf(int n) {
    int twice = 2 * n;
    while (!go) usleep(100);
    return twice;
}

static void reached(void) {}

int main(void) {
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        for (int i = 0; i < TASKS; i++) {
#pragma omp task untied firstprivate(i)
            got[i] = leaf(i);
        }
        reached();
        go = 1;
    }
    printf("%d %d %d %d\n", got[0], got[1], got[2], got[3]);
    return 0;
}
