/* Messages in the middle of a run, by its first argument:
 * race: rank 0 receives from whoever comes; named: the twin, which names its sources;
 * token: one message goes round and is received from any source: nothing else is ever on its way;
 * pool: rank 0 answers each, as they come. The second argument is how long, in seconds; with a third one all ends half a second
 * after there is a file of that name. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, value;

static void once(int named) {
    if (rank) MPI_Send(&rank, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    else
        for (int source = 1; source < size; source++)
            MPI_Recv(&value, 1, MPI_INT, named ? source : MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void token(void) {
    if (rank == 0) MPI_Send(&value, 1, MPI_INT, 1 % size, 4, MPI_COMM_WORLD);
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank) MPI_Send(&value, 1, MPI_INT, (rank + 1) % size, 4, MPI_COMM_WORLD);
}

static void pool(void) {
    MPI_Status status;
    if (rank) {
        MPI_Send(&rank, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
        MPI_Recv(&value, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int i = 1; rank == 0 && i < size; i++) {
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &status);
        MPI_Send(&value, 1, MPI_INT, status.MPI_SOURCE, 6, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double end = MPI_Wtime() + atof(argv[2]);
    int how = argv[1][0], more = 1, fast = how == 't' || how == 'p';
    for (int step = 0; more; step++) {
        if (how == 't') token();
        else if (how == 'p') pool();
        else if (step == 5) once(how == 'n');
        if (!fast) usleep(20000);
        if (fast && step % 100) continue;
        if (argc > 3 && !access(argv[3], F_OK) && end > MPI_Wtime() + 0.5) end = MPI_Wtime() + 0.5;
        more = MPI_Wtime() < end;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return argc < 3;
}
