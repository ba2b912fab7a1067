/* Ranks 0 and 1 are connected by a port: each has one end of one communicator. `left` leaves a message unreceived. */
#include <mpi.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, x = 7, y = 0;
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm other;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
        if (argc < 2)
            MPI_Recv(&y, 1, MPI_INT, 0, 3, other, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
        MPI_Send(&x, 1, MPI_INT, 0, 3, other); /* BUG */
    }
    MPI_Barrier(other);
    MPI_Comm_disconnect(&other);
    if (rank == 0)
        MPI_Close_port(port);
    MPI_Finalize();
    return 0;
}
