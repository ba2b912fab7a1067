#include <mpi.h>
#include <stdlib.h>
#include <weft.h>
#define N 30
typedef double row[N];
int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int n = N / size + (rank < N % size), first = rank * (N / size) + (rank < N % size ? rank : N % size);
    row *a = (row *)calloc(n + 2, sizeof(row)), *b = (row *)calloc(n + 2, sizeof(row));
    for (int j = 0; rank == 0 && j < N; j++) a[1][j] = b[1][j] = 1;
    for (int step = 0; step < 6; step++) {
        weft_loop("sweep", step);
        int up = rank ? rank - 1 : MPI_PROC_NULL, down = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
        MPI_Sendrecv(a[1], N, MPI_DOUBLE, up, 0, a[n + 1], N, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv(a[n], N, MPI_DOUBLE, down, 1, a[0], N, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        double mine = 0, all;
        for (int i = 1; i <= n; i++)
            for (int j = 1; j < N - 1; j++) {
                if (first + i - 1 == 0 || first + i == N) continue;
                b[i][j] = (a[i - 1][j] + a[i + 1][j] + a[i][j - 1] + a[i][j + 1]) / 4;
                double d = b[i][j] > a[i][j] ? b[i][j] - a[i][j] : a[i][j] - b[i][j];
                if (d > mine) mine = d;
            }
        MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        row *other = a; a = b; b = other;
        weft_probe("residual", &all, double);
        weft_probe_part("A", &a[1][0], double, "A", 2, WEFT_LIST(n, N), WEFT_LIST(first, 0), WEFT_LIST(n + 2, N));
    }
    weft_end("sweep");
    float few[3] = {1, 2, 3};
    weft_probe_n("few", few, float, 3);
    MPI_Finalize();
    return 0;
}
