/* Untied tasks that give their place back again and again: each writes down where it stands before it does. */
#include <stdio.h>
#include <unistd.h>

enum { TASKS = 6, ROUNDS = 2000 };
static volatile int stands[TASKS], before[TASKS];

static void busy(void) { usleep(200); }

static void seen(void) { busy(); }

int main(void) {
    int sum = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int k = 0; k < TASKS; k++) {
#pragma omp task untied firstprivate(k) shared(sum)
        {
            int mine = k;
            stands[k] = __LINE__;
#pragma omp taskyield
            mine += 1;
            seen();
            stands[k] = __LINE__;
#pragma omp taskyield
            mine += 1;
            seen();
            stands[k] = __LINE__;
#pragma omp taskyield
            mine += 1;
            seen();
            stands[k] = 0;
#pragma omp atomic
            sum += mine;
        }
    }
    printf("sum %d\n", sum);
    return 0;
}
