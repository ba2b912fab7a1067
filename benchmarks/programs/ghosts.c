/* Jacobi's method on blocks of n × n. `ghosts N STEPS WIDTH`: ghost rows, and ghost columns of that width; prints the
 * microseconds of processor time of a step. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <weft.h>

static void sweep(int n, const double *u, double *v) {
    int m = n + 2;
    for (int i = 1; i <= n; i++)
        for (int j = 1; j <= n; j++)
            v[i * m + j] = 0.25 * (u[(i - 1) * m + j] + u[(i + 1) * m + j] + u[i * m + j - 1] + u[i * m + j + 1]);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int n = atoi(argv[1]), steps = atoi(argv[2]), wide = atoi(argv[3]), m = n + 2, ranks, low, high, period = 1;
    MPI_Comm line;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &period, 0, &line);
    MPI_Cart_shift(line, 0, 1, &low, &high);
    double *u = calloc((size_t)m * m, sizeof *u), *v = calloc((size_t)m * m, sizeof *v);
    weft_part(u, double, "u", 2, WEFT_LIST(m, m), WEFT_LIST(1, wide), line);
    weft_part(v, double, "v", 2, WEFT_LIST(m, m), WEFT_LIST(1, wide), line);
    for (int i = m; i < m * (m - 1); i++) u[i] = rand() / (double)RAND_MAX;
    clock_t begun = clock();
    for (int step = 0; step < steps; step++) {
        MPI_Sendrecv(u + n * m, m, MPI_DOUBLE, high, 1, u, m, MPI_DOUBLE, low, 1, line, MPI_STATUS_IGNORE);
        MPI_Sendrecv(u + m, m, MPI_DOUBLE, low, 2, u + (n + 1) * m, m, MPI_DOUBLE, high, 2, line, MPI_STATUS_IGNORE);
        sweep(n, u, v);
        double *other = u;
        u = v;
        v = other;
    }
    printf("%g\n", (double)(clock() - begun) / CLOCKS_PER_SEC / steps * 1e6);
    free(u);
    free(v);
    MPI_Comm_free(&line);
    MPI_Finalize();
    return 0;
}
