/* Tasks to be held: each has its part, and the program prints what has come together, and in which order. They go on when
 * all are made; the argument says how many threads there are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static double seen[8];
static volatile int order[8], count, made;

static void reached(void) { made = 1; }

static double slow(int number, const char *text) {
    double x = number * 0.5, y = number * 0.25;
    char copy[16];
    for (int i = 0; i < 20; i++) {
        strncpy(copy, text, sizeof copy - 1);
        usleep(1000);
        x += y * (copy[0] == 'a');
        y = y * 1.5 - x * 0.125;
    }
    return x + y;
}

static void done(int number) { order[__atomic_fetch_add(&count, 1, __ATOMIC_SEQ_CST)] = number; }

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 2;
#pragma omp parallel num_threads(threads)
#pragma omp single
    {
        for (int i = 0; i < 6; i++)
#pragma omp task firstprivate(i) shared(seen)
        {
            while (threads > 1 && !made) usleep(200);
            double mine = slow(i, "abc");
            seen[i] = mine + 1;
            done(i);
        }
        reached();
#pragma omp taskwait
        done(6);
    }
    printf("%.12g %.12g %.12g\n", seen[0] + seen[1], seen[2] + seen[3], seen[4] + seen[5]);
    for (int i = 0; i < count; i++) printf("%d ", order[i]);
    printf("\n");
    return 0;
}
