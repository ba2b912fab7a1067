/* A one-sided halo exchange: a square of points a rank, relaxed by five points, whose edge rows are put into the
 * neighbours' ghost rows between two fences. halo POINTS STEPS apart: windows hold rows of their own, which are copied
 * into the grid; edges: the ghost rows; whole: all of the grid. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UPPER, LOWER };

static void relax(int n, const double *from, double *to)
{
    for (int i = 1; i <= n; i++)
        for (int j = 1; j < n - 1; j++)
            to[i * n + j] =
                0.25 * (from[(i - 1) * n + j] + from[(i + 1) * n + j] + from[i * n + j - 1] + from[i * n + j + 1]);
}

int main(int argc, char **argv)
{
    int rank, size, n = argc > 1 ? atoi(argv[1]) : 1000, steps = argc > 2 ? atoi(argv[2]) : 200;
    int whole = argc > 3 && strcmp(argv[3], "whole") == 0, apart = argc <= 3 || strcmp(argv[3], "apart") == 0;
    double *grid[2], *brought[2][2];
    MPI_Win window[2][2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t row = (size_t) n * sizeof(double);
    for (int k = 0; k < 2; k++) {
        grid[k] = malloc((n + 2) * row);
        for (int i = 0; i < (n + 2) * n; i++)
            grid[k][i] = rank + i % 7;
        for (int edge = UPPER; edge <= LOWER; edge++) {
            brought[k][edge] = apart ? malloc(row) : edge == UPPER || whole ? grid[k] : grid[k] + (size_t) (n + 1) * n;
            if (apart)
                memcpy(brought[k][edge], grid[k] + (edge == UPPER ? 0 : (size_t) (n + 1) * n), row);
            MPI_Win_create(brought[k][edge], (MPI_Aint) (whole ? (n + 2) * row : row), sizeof(double), MPI_INFO_NULL,
                           MPI_COMM_WORLD, &window[k][edge]);
        }
    }
    int up = rank ? rank - 1 : MPI_PROC_NULL, down = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
    for (int s = 0; s < steps; s++) {
        double *now = grid[s % 2];
        MPI_Win *of = window[s % 2];
        MPI_Win_fence(MPI_MODE_NOPRECEDE, of[UPPER]);
        MPI_Win_fence(MPI_MODE_NOPRECEDE, of[LOWER]);
        MPI_Put(now + n, n, MPI_DOUBLE, up, whole ? (MPI_Aint) (n + 1) * n : 0, n, MPI_DOUBLE, of[LOWER]);
        MPI_Put(now + (size_t) n * n, n, MPI_DOUBLE, down, 0, n, MPI_DOUBLE, of[UPPER]);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, of[LOWER]);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, of[UPPER]);
        if (apart) {
            memcpy(now, brought[s % 2][UPPER], row);
            memcpy(now + (size_t) (n + 1) * n, brought[s % 2][LOWER], row);
        }
        relax(n, now, grid[(s + 1) % 2]);
    }
    double sum = 0;
    for (int i = n; i < (n + 1) * n; i++)
        sum += grid[steps % 2][i];
    printf("rank %d: %.6g\n", rank, sum);
    for (int k = 0; k < 4; k++)
        MPI_Win_free(&window[k / 2][k % 2]);
    free(grid[0]);
    free(grid[1]);
    MPI_Finalize();
    return 0;
}
