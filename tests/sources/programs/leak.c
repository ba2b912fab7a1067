#include <mpi.h>

static void give(int *x, int to) {
    MPI_Request r;
    MPI_Isend(x, 1, MPI_INT, /* (to whom */ to, 99,
              MPI_COMM_WORLD, &r);
}

int main(int argc, char **argv) {
    int rank, x = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) give(&x, 1);
    else MPI_Recv(&x, 1, MPI_INT, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
