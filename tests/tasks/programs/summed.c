/* Tasks that change a variable of the function that made them, and one of the program. */
#include <stdio.h>
int count;
int main(void) {
    int sum = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int i = 0; i < 3; i++) {
#pragma omp task firstprivate(i) shared(sum)
        {
#pragma omp atomic
            sum += i + 1;
#pragma omp critical
            count++;
        }
    }
    printf("%d %d\n", sum, count);
    return 0;
}
