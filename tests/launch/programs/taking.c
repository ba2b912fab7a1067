/* Three ranks talk for so many seconds: the others send to rank 0, which receives as the second word says, and answers.
 * It ends well, or as the third word says. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BURST = 200, TAG = 7, ANSWER = 8, LATE = 99 };
static int rank, size, value, in, ins[2];

static void pairs(const char *way) {
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Request request;
    if (!strcmp(way, "replace"))
        MPI_Sendrecv_replace(&value, 1, MPI_INT, right, TAG, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (way[0] == 'i') {
#if MPI_VERSION >= 4 || OMPI_MAJOR_VERSION >= 5
        int from = strstr(way, "any") ? MPI_ANY_SOURCE : left;
        if (strstr(way, "replace"))
            MPI_Isendrecv_replace(&value, 1, MPI_INT, right, TAG, from, TAG, MPI_COMM_WORLD, &request);
        else MPI_Isendrecv(&value, 1, MPI_INT, right, TAG, &in, 1, MPI_INT, from, TAG, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
#else
        (void)request;
#endif
    } else
        MPI_Sendrecv(&value, 1, MPI_INT, right, TAG, &in, 1, MPI_INT, left, MPI_ANY_TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
}

static void serve(const char *way) {
    int n = size - 1, done = 0, at[2];
    MPI_Request requests[2];
    MPI_Status status, statuses[2];
    for (int i = 0; i < n; i++)
        MPI_Irecv(&ins[i], 1, MPI_INT, MPI_ANY_SOURCE, i ? TAG : MPI_ANY_TAG, MPI_COMM_WORLD, &requests[i]);
    if (!strcmp(way, "waitall")) MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
    else if (!strcmp(way, "testsome"))
        for (int some; done < n; done += some) MPI_Testsome(n, requests, &some, at, statuses);
    else
        for (; done < n; done++) MPI_Waitany(n, requests, at, &status);
    for (int worker = 1; worker < size; worker++) MPI_Send(&in, 1, MPI_INT, worker, ANSWER, MPI_COMM_WORLD);
}

static void work(void) {
    MPI_Send(&value, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD);
    MPI_Recv(&value, 1, MPI_INT, 0, ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *way = argv[2], *end = argc > 3 ? argv[3] : "";
    int on = 1, late = !strcmp(end, "late") || !strcmp(end, "freed"), got = 0;
    MPI_Request early = MPI_REQUEST_NULL;
    MPI_Comm apart;
    MPI_Comm_dup(MPI_COMM_WORLD, &apart);
    if (late && !rank) MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, LATE, apart, &early);
    double until = MPI_Wtime() + atof(argv[1]);
    while (on) {
        for (int i = 0; i < BURST; i++) {
            if (strstr(way, "sendrecv") || strstr(way, "replace")) pairs(way);
            else if (rank) work();
            else serve(way);
        }
        on = MPI_Wtime() < until;
        MPI_Bcast(&on, 1, MPI_INT, 0, MPI_COMM_WORLD);
        usleep(10000);
    }
    if (late && rank == 1) MPI_Send(&value, 1, MPI_INT, 0, LATE, apart);
    if (!strcmp(end, "late") && !rank) MPI_Wait(&early, MPI_STATUS_IGNORE);
    if (!strcmp(end, "freed") && !rank) MPI_Request_free(&early);
    if (!strcmp(end, "unreceived") && rank == 1) MPI_Send(&value, 1, MPI_INT, 0, LATE, MPI_COMM_WORLD);
    if (!strcmp(end, "deadlock")) MPI_Recv(&in, 1, MPI_INT, (rank + 1) % size, LATE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_free(&apart);
    MPI_Finalize();
    return 0;
}
