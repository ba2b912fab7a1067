/* Ranks 1 and up send to rank 0, which takes from anyone, in every way in which one can. */
#include <mpi.h>
#include <stdio.h>

static int rank, size, value[8], got;
static MPI_Status status;
static MPI_Request requests[8];
static MPI_Message message;
#define EACH for (int i = 1; i < size; i++)
#define ANY MPI_INT, MPI_ANY_SOURCE

int main(int argc, char **argv) {
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm); /* other numbers than in the world: rank 0 is the last */
    for (int way = 0; way < 7; way++) {
        if (rank) MPI_Send(&rank, 1, MPI_INT, size - 1, way, comm);
        else if (way == 0) EACH MPI_Recv(value, 1, ANY, way, comm, &status);
        else if (way == 1) EACH {
            MPI_Irecv(value, 1, ANY, way, comm, requests);
            MPI_Wait(requests, &status);
        } else if (way == 2) {
            EACH MPI_Irecv(&value[i], 1, ANY, way, comm, &requests[i]);
            EACH MPI_Waitany(size - 1, requests + 1, &got, &status);
        } else if (way == 3) EACH {
            MPI_Probe(MPI_ANY_SOURCE, way, comm, &status);
            MPI_Recv(value, 1, MPI_INT, status.MPI_SOURCE, way, comm, MPI_STATUS_IGNORE);
        } else if (way == 4) EACH {
            MPI_Mprobe(MPI_ANY_SOURCE, way, comm, &message, &status);
            MPI_Mrecv(value, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        } else if (way == 5) EACH MPI_Sendrecv(&rank, 1, MPI_INT, MPI_PROC_NULL, 0, value, 1, ANY, way, comm, &status);
        else {
            MPI_Recv_init(value, 1, ANY, way, comm, requests);
            EACH {
                MPI_Start(requests);
                MPI_Wait(requests, &status);
            }
            MPI_Request_free(requests);
        }
        MPI_Barrier(comm);
    }
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
