/* Waits for ever, and says where MPICH has the memory that its ranks share. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    int me, got = 0;
    char line[512], *name = NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (me == 0 && name == NULL && fgets(line, sizeof line, maps) != NULL)
        name = strstr(line, "/dev/shm/mpich_shm");
    if (name != NULL)
        printf("%s", name);
    fflush(stdout);
    MPI_Recv(&got, 1, MPI_INT, 1 - me, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
