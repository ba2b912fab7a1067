/* Two worlds of workers are spawned one after the other. In each, rank 0 takes from any of the others, and tells the
 * parents, of whom rank 0 takes from any worker. Prints who was taken when. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void work(MPI_Comm parent, int each) {
    int rank, size, got = 0;
    MPI_Status status;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < each; i++) {
        usleep((useconds_t)(getpid() * 17 + i * 131) % 700);
        if (rank) MPI_Send(&i, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    }
    int taken = 0;
    for (int i = 0; rank == 0 && i < each * (size - 1); i++) {
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        taken = taken * 3 + status.MPI_SOURCE;
    }
    MPI_Send(&taken, 1, MPI_INT, 0, 2, parent);
    MPI_Comm_disconnect(&parent);
}

int main(int argc, char **argv) {
    int rank, each = 4;
    char *arguments[] = {(char *)"child", NULL};
    MPI_Comm parent, children;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) work(parent, each);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int world = 0; parent == MPI_COMM_NULL && world < 2; world++) {
        MPI_Comm_spawn(argv[0], arguments, 3, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
        for (int i = 0; rank == 0 && i < 3; i++) {
            int taken;
            MPI_Status status;
            MPI_Recv(&taken, 1, MPI_INT, MPI_ANY_SOURCE, 2, children, &status);
            printf("%d.%d ", status.MPI_SOURCE, taken);
        }
        MPI_Comm_disconnect(&children);
    }
    if (parent == MPI_COMM_NULL && rank == 0) printf("\n");
    MPI_Finalize();
    return 0;
}
