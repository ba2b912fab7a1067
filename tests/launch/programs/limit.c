/* Rank 1 waits for a message that rank 0 sends after so many seconds of its own, or, with a second word, half a second after there
 * is a file of that name; all others talk with themselves meanwhile. */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

static int steps, of_steps;

/* Whether to go on for another hundredth of a second. */
static int is_early(const char *file) {
    if (file && !access(file, F_OK) && of_steps > steps + 50) of_steps = steps + 50;
    if (steps++ >= of_steps) return 0;
    usleep(10000);
    return 1;
}

int main(int argc, char **argv) {
    const char *file = argc > 2 ? argv[2] : NULL;
    int rank, value = 0;
    of_steps = (int)(100 * (argc > 1 ? atof(argv[1]) : 1));
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        while (is_early(file)) continue;
        MPI_Send(&value, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        while (is_early(file)) MPI_Barrier(MPI_COMM_SELF);
    }
    MPI_Finalize();
    return 0;
}
