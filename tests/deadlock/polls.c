/* Rank 0 or rank 1 polls for something that never comes; the first word says how, and the twins what is right with it. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int x, y, flag, at[2];
static MPI_Request request[2];
static const char *how;

static int is(const char *name) { return !strcmp(how, name); }

static double work(int n) {
    double sum = 0;
    for (int i = 1; i < n; i++) sum += 1.0 / i;
    return sum;
}

static void poll_once(void) {
    MPI_Message message;
    if (is("testany")) MPI_Testany(2, request, at, &flag, MPI_STATUS_IGNORE);
    else if (is("testall")) MPI_Testall(2, request, &flag, MPI_STATUSES_IGNORE);
    else if (is("testsome")) {
        int count;
        MPI_Testsome(2, request, &count, at, MPI_STATUSES_IGNORE);
        flag = count > 0;
    } else if (is("improbe")) MPI_Improbe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE);
    else if (is("in turn")) {
        MPI_Test(&request[0], &flag, MPI_STATUS_IGNORE);
        if (!flag) MPI_Iprobe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    } else MPI_Test(&request[0], &flag, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    int rank;
    double sum = 0;
    how = argc > 1 ? argv[1] : "test";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1) {
        MPI_Irecv(&x, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &request[0]);
        MPI_Irecv(&y, 1, MPI_INT, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &request[1]);
        for (int n = 0; !flag && !(is("bounded") && n > 2000); n++) {
            poll_once();
            if (is("computes")) sum += work(100000);
            else if (is("computes little")) sum += work(1000);
            else if (is("until a time")) flag = MPI_Wtime() > 1e12;
            if (!is("tight") && !is("computes") && !is("computes little")) usleep(1000);
        }
        for (int i = 0; i < 2; i++)
            if (request[i] != MPI_REQUEST_NULL) MPI_Cancel(&request[i]);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    } else if (is("late")) {
        for (unsigned left = 60; left > 0;) left = sleep(left);
        MPI_Send(&x, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return sum == 42;
}
