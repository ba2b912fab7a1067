/* Rank 0 sends large messages to rank 1 in every way in which a send may wait for its receiver, then one to rank 2. */
#include <mpi.h>
#include <stdlib.h>

enum { COUNT = 1 << 18 };

int main(int argc, char **argv) {
    int rank, small = 0;
    int *data = calloc(COUNT, sizeof *data);
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Send(data, COUNT, MPI_INT, 1, 1, MPI_COMM_WORLD);
        MPI_Isend(data, COUNT, MPI_INT, 1, 2, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Sendrecv(data, COUNT, MPI_INT, 1, 3, &small, 1, MPI_INT, 2, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Sendrecv_replace(data, COUNT, MPI_INT, 1, 4, 2, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send_init(data, COUNT, MPI_INT, 1, 5, MPI_COMM_WORLD, &request);
        for (int i = 0; i < 2; i++) {
            data[0] = i;
            MPI_Start(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        MPI_Request_free(&request);
        MPI_Send(&small, 1, MPI_INT, 2, 6, MPI_COMM_WORLD);
    } else if (rank == 1) {
        for (int tag = 1; tag < 6; tag++) MPI_Recv(data, COUNT, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(data, COUNT, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (data[0] != 1) MPI_Abort(MPI_COMM_WORLD, 3);
    } else {
        MPI_Send(&small, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
        MPI_Send(&small, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
        MPI_Recv(&small, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_SELF);
    }
    MPI_Finalize();
    return 0;
}
