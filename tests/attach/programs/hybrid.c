/* MPI and OpenMP: the second thread of rank 1 waits for a message, the others are in a barrier; they never go on. */
#include <mpi.h>
#include <omp.h>

static void region(void) {
#pragma omp parallel num_threads(2)
    {
        int value = 0;
        if (omp_get_thread_num() == 1) MPI_Recv(&value, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv) {
    int rank, provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1) region();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
