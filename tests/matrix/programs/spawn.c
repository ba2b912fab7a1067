/* A process starts two more, of the same program, and talks with them. */
#include "log.h"

int main(int argc, char **argv) {
    int rank = 0, number = 42, got = 0, remote = 0;
    char *arguments[2] = {(char *)"child", NULL};
    MPI_Comm parent = MPI_COMM_NULL, children = MPI_COMM_NULL;
    MPI_Status status;
    log_open();
    log_meanings();
    CALL(MPI_Init, NULL, NULL);
    CALL(MPI_Comm_rank, MPI_COMM_WORLD, &rank);
    CALL(MPI_Comm_get_parent, &parent);
    if (argc < 2) {
        CALL(MPI_Comm_spawn, argv[0], arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
        CALL(MPI_Comm_remote_size, children, &remote);
        CALL(MPI_Send, &number, 1, MPI_INT, 1, 5, children);
        CALL(MPI_Recv, &got, 1, MPI_INT, MPI_ANY_SOURCE, 6, children, &status);
        CALL(MPI_Comm_disconnect, &children);
    } else {
        if (rank == 1) CALL(MPI_Recv, &got, 1, MPI_INT, 0, 5, parent, &status);
        if (rank == 1) CALL(MPI_Send, &got, 1, MPI_INT, 0, 6, parent);
        CALL(MPI_Comm_disconnect, &parent);
    }
    CALL0(MPI_Finalize);
    return 0;
}
