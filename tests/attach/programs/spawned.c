/* One rank spawns two, twice, and all wait for each other for ever: a message with another tag is sent than received. */
#include <mpi.h>

int main(int argc, char **argv) {
    MPI_Comm parent, children[2];
    int rank, value = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (parent == MPI_COMM_NULL) {
        for (int i = 0; i < 2; i++)
            MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children[i], MPI_ERRCODES_IGNORE);
        MPI_Recv(&value, 1, MPI_INT, 0, 5, children[1], MPI_STATUS_IGNORE);
    } else if (rank == 0) {
        MPI_Ssend(&value, 1, MPI_INT, 0, 6, parent);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
