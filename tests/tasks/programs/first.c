#include <stdio.h>
int main(void) {
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task
        puts("in a task");
    }
    return 0;
}
