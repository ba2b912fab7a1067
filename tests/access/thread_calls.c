/* Right: one thread calls MPI, and the others go on when it has. Run as `thread_calls`, on three ranks. */
#include <mpi.h>
#include <omp.h>
#include <stdio.h>

static void send_in_turn(int rank)
{
    int one = 1;
    if (rank == 0) {
#pragma omp parallel num_threads(2)
        if (omp_get_thread_num() == 1)
            MPI_Ssend(&one, 1, MPI_INT, 2, 0, MPI_COMM_WORLD);
        MPI_Send(&one, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(&one, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&one, 1, MPI_INT, 2, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&one, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(&one, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void put_in_turn(int rank)
{
    int *memory, one = 1;
    MPI_Win win;
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    MPI_Win_lock_all(0, win);
    if (rank == 0) {
#pragma omp parallel num_threads(2)
        if (omp_get_thread_num() == 1) {
            MPI_Put(&one, 1, MPI_INT, 2, 0, 1, MPI_INT, win);
            MPI_Win_flush(2, win);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 2) {
        MPI_Put(&one, 1, MPI_INT, 2, 0, 1, MPI_INT, win);
        MPI_Win_flush(2, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    int provided, rank;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (provided == MPI_THREAD_MULTIPLE) {
        send_in_turn(rank);
        put_in_turn(rank);
    }
    MPI_Finalize();
    return 0;
}
