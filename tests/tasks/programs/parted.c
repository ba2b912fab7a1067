// A task that another thread than the first makes, and that ends while that thread waits at the end of the region.
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

static int got;
static volatile int made;

int main(void) {
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) {
#pragma omp task
        {
            got = 1;
            got += 1;
        }
        made = 1;
    } else {
        while (!made) usleep(100);
        usleep(300000);
    }
    printf("%d\n", got);
    return 0;
}
