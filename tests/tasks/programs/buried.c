/* Tasks that wait below their children on a worker's stack, each in its own way: a wait in a function that the task
 * calls, a wait in the task's own body, a group. The deepest sleeps, so that others may be looked at. */
#include <stdio.h>
#include <unistd.h>

static int deepest(int depth) {
    int value = depth;
    usleep(1000);
    return value;
}

static int called(int depth) {
    int mine = depth, below = 0;
    if (depth == 6) return deepest(depth);
#pragma omp task shared(below)
    {
        if (depth % 3 == 0) below = called(depth + 1);
        if (depth % 3 == 1) {
            int inner = 0;
#pragma omp task shared(inner)
            inner = called(depth + 1);
#pragma omp taskwait
            below = inner;
            below += 0;
        }
        if (depth % 3 == 2) {
            int grouped = 0;
#pragma omp taskgroup
            {
#pragma omp task shared(grouped)
                grouped = called(depth + 1);
            }
            below = grouped;
            below += 0;
        }
        below += 1;
    }
#pragma omp taskwait
    mine += below;
    mine += 1;
    return mine;
}

int main(void) {
    int got = 0, other = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task shared(got)
        got = called(0);
#pragma omp task shared(other)
        other = called(3);
#pragma omp taskwait
        got += other;
    }
    printf("got %d\n", got);
    return 0;
}
