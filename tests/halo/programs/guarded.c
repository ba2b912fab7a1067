/* Rows in place; the ranks at the ends make fewer calls than the others: one exchange in place of two. `guarded right|seldom`
 *
 * What is wrong is told at the line of the star.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

enum { N = 8, M = 6, STEPS = 6 };
static double (*u)[M];

/* The row `mine` to another rank, and its own into the row `ghost`. */
static void swap(int mine, int ghost, int other) {
    MPI_Sendrecv(u[mine], M, MPI_DOUBLE, other, 0, u[ghost], M, MPI_DOUBLE, other, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    int rank, size, seldom = argc > 1 && !strcmp(argv[1], "seldom");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    u = calloc(N + 2, sizeof *u);
    weft_part(u, double, "u", 2, WEFT_LIST(N + 2, M), argc > 2 ? NULL : WEFT_LIST(1, 0), MPI_COMM_WORLD);
    for (int i = 1; i <= N; i++)
        for (int j = 0; j < M; j++) u[i][j] = 1 + rand() / (double)RAND_MAX + rank;
    for (int step = 0; step < STEPS; step++) {
        if (rank > 0 && !(seldom && step % 2)) swap(1, 0, rank - 1);
        if (rank < size - 1 && !(seldom && step % 2)) swap(N, N + 1, rank + 1);
        for (int i = 1; i <= N; i++)
            for (int j = 0; j < M; j++) u[i][j] = (u[i - 1][j] + u[i + 1][j]) / 2; /* the star */
    }
    free(u);
    MPI_Finalize();
    return 0;
}
