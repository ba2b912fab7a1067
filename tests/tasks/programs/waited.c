// A task waits for its child, which another thread runs. While it waits, its thread begins a task that comes to the same
// lines, and to the end of its own wait first.
#include <unistd.h>

static volatile int begun, taken;

static void reached(void) { begun = 2; }

static void after(int n) { (void)n; }

static void work(int n, int unused) {
    if (n == 1) taken = 1;
#pragma omp task firstprivate(n)
    {
        begun = begun ? begun : 1;
        if (n == 2) {
            usleep(300000); // the one that waits does so by then
            reached();
#pragma omp task
            work(1, 0);
            while (!taken) usleep(100);
            usleep(200000);
        }
    }
    while (!begun) usleep(100);
#pragma omp taskwait
    after(n);
}

int main(void) {
#pragma omp parallel num_threads(2)
#pragma omp single
    work(2, 7);
    return 0;
}
