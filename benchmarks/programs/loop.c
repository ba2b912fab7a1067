/* One kind of call in a loop, a process alone: loop KIND ITERATIONS. Prints the loop's processor time in ns. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int out[4], in[4];
static MPI_Request requests[2];

static void named(void) {
    MPI_Irecv(in, 4, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Send(out, 4, MPI_INT, 0, 1, MPI_COMM_WORLD);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void waitall(void) {
    MPI_Irecv(in, 4, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, 4, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void wildcard(void) {
    MPI_Status status;
    MPI_Isend(out, 4, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv(in, 4, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void comm_rank(void) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
}

static void allreduce(void) { MPI_Allreduce(out, in, 4, MPI_INT, MPI_SUM, MPI_COMM_SELF); }

static const struct { const char *name; void (*once)(void); } kinds[] = {
    {"named", named}, {"waitall", waitall}, {"wildcard", wildcard}, {"comm_rank", comm_rank}, {"allreduce", allreduce}};

static double processor_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    void (*once)(void) = NULL;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (argc == 3 && !strcmp(kinds[k].name, argv[1])) once = kinds[k].once;
    if (!once) return 2;
    MPI_Init(&argc, &argv);
    once();
    double start = processor_time();
    for (long i = atol(argv[2]); i > 0; i--) once();
    printf("%.0f\n", processor_time() - start);
    MPI_Finalize();
    return 0;
}
