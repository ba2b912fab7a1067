/* Heat on a 2-D grid of processes: halo exchange with derived types, posted before the inner cells are computed. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define N 96 /* inner rows and columns of a process */
#define W (N + 2)
#define STEPS 60
#define AT(g, i, j) ((g)[(i) * W + (j)])

static void relax(const double *from, double *to, int low, int high) {
    for (int i = low; i < high; i++)
        for (int j = 1; j <= N; j++)
            AT(to, i, j) = 0.25 * (AT(from, i - 1, j) + AT(from, i + 1, j) + AT(from, i, j - 1) + AT(from, i, j + 1));
}

static void edges(const double *from, double *to) {
    relax(from, to, 1, 2);
    relax(from, to, N, N + 1);
    for (int i = 2; i < N; i++)
        for (int k = 0; k < 2; k++) {
            int j = k ? N : 1;
            AT(to, i, j) = 0.25 * (AT(from, i - 1, j) + AT(from, i + 1, j) + AT(from, i, j - 1) + AT(from, i, j + 1));
        }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int size, rank, dims[2] = {0, 0}, periods[2] = {0, 1}, up, down, left, right;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, dims);
    MPI_Comm grid;
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_shift(grid, 0, 1, &up, &down);
    MPI_Cart_shift(grid, 1, 1, &left, &right);
    MPI_Datatype row, column;
    MPI_Type_contiguous(N, MPI_DOUBLE, &row);
    MPI_Type_vector(N, 1, W, MPI_DOUBLE, &column);
    MPI_Type_commit(&row);
    MPI_Type_commit(&column);

    double *old = calloc(W * W, sizeof *old), *new = calloc(W * W, sizeof *new), change = 0, most = 0;
    for (int i = 1; i <= N; i++)
        for (int j = 1; j <= N; j++) AT(old, i, j) = rank + sin(i * 0.1) * cos(j * 0.1);
    for (int step = 0; step < STEPS; step++) {
        MPI_Request q[8];
        MPI_Irecv(&AT(old, 0, 1), 1, row, up, 0, grid, q);
        MPI_Irecv(&AT(old, N + 1, 1), 1, row, down, 1, grid, q + 1);
        MPI_Irecv(&AT(old, 1, 0), 1, column, left, 2, grid, q + 2);
        MPI_Irecv(&AT(old, 1, N + 1), 1, column, right, 3, grid, q + 3);
        MPI_Isend(&AT(old, N, 1), 1, row, down, 0, grid, q + 4);
        MPI_Isend(&AT(old, 1, 1), 1, row, up, 1, grid, q + 5);
        MPI_Isend(&AT(old, 1, N), 1, column, right, 2, grid, q + 6);
        MPI_Isend(&AT(old, 1, 1), 1, column, left, 3, grid, q + 7);
        for (int i = 2; i < N; i++)
            for (int j = 2; j < N; j++)
                AT(new, i, j) = 0.25 * (AT(old, i - 1, j) + AT(old, i + 1, j) + AT(old, i, j - 1) + AT(old, i, j + 1));
        MPI_Waitall(8, q, MPI_STATUSES_IGNORE);
        edges(old, new);
        if (step % 10 == 9) {
            change = 0;
            for (int i = 1; i <= N; i++)
                for (int j = 1; j <= N; j++) change = fmax(change, fabs(AT(new, i, j) - AT(old, i, j)));
            MPI_Allreduce(&change, &most, 1, MPI_DOUBLE, MPI_MAX, grid);
        }
        double *swap = old;
        old = new;
        new = swap;
    }
    if (rank == 0) printf("change %g\n", most);
    free(old);
    free(new);
    MPI_Type_free(&row);
    MPI_Type_free(&column);
    MPI_Comm_free(&grid);
    MPI_Finalize();
    return 0;
}
