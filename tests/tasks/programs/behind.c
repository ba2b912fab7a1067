// The first thread waits at the end of a region while the other one still has its part to do.
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

static volatile int total;

static void late(void) { total += 1; }

int main(void) {
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) {
        usleep(300000);
        late();
    }
    printf("%d\n", total);
    return 0;
}
