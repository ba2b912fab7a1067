/* Ranks hand a number round, until the last argument, in seconds. Between the second and the third rank 0 also receives
 * from whoever comes (`race`), or from each by name (`named`). */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, value;

static void gather(int named) {
    if (rank) MPI_Send(&rank, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    else
        for (int source = 1; source < size; source++)
            MPI_Recv(&value, 1, MPI_INT, named ? source : MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void ring(void) {
    MPI_Sendrecv_replace(&value, 1, MPI_INT, (rank + 1) % size, 4, (rank + size - 1) % size, 4, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int named = !strcmp(argv[1], "named");
    double begun = MPI_Wtime(), from = atof(argv[2]), until = atof(argv[3]), end = atof(argv[4]), now = 0;
    while (now < end) {
        for (int i = 0; i < 100; i++) ring();
        if (now >= from && now < until) gather(named);
        now = MPI_Wtime() - begun;
        MPI_Bcast(&now, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        usleep(10000);
    }
    MPI_Finalize();
    return 0;
}
