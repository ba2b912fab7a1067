/* Each OpenMP task sends itself messages by MPI, with tags that name it: the record has to tell the tasks apart alike.
 *
 * Arguments: tasks a rank; then `hang`, where a task of each rank receives what nobody sends, or `kill`, where rank 0
 * ends itself in a task and the others wait in one. With -DUNTIED the tasks are untied. */
#include <mpi.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef UNTIED
#define KIND untied
#else
#define KIND
#endif

static int rank;

static void exchange(int tag) {
    int out = tag, in = -1;
    MPI_Request request;
    MPI_Irecv(&in, 1, MPI_INT, rank, tag, MPI_COMM_WORLD, &request);
    MPI_Send(&out, 1, MPI_INT, rank, tag, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (in != tag) MPI_Abort(MPI_COMM_WORLD, 1);
}

static void parent(int k) {
    exchange(10000 + 10 * k);
#pragma omp task KIND firstprivate(k) // first child
    exchange(10001 + 10 * k);
#pragma omp task KIND firstprivate(k) // second child
    {
        exchange(10002 + 10 * k);
#pragma omp taskyield
        exchange(10003 + 10 * k);
    }
    exchange(10004 + 10 * k);
#pragma omp taskwait
    exchange(10005 + 10 * k);
}

static void last(char end) {
    int value;
    exchange(300);
    if (end == 'k' && rank == 0) { /* the other rank is where it is to be found: the launcher ends it, too */
        MPI_Recv(&value, 1, MPI_INT, 1, 78, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        usleep(500000);
        raise(SIGKILL);
    }
    if (end == 'k') MPI_Send(&rank, 1, MPI_INT, 0, 78, MPI_COMM_WORLD);
    MPI_Recv(&value, 1, MPI_INT, end == 'k' ? rank : 1 - rank, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    int provided, n = argc > 1 ? atoi(argv[1]) : 8;
    char end = argc > 2 ? argv[2][0] : 0;
#pragma omp parallel num_threads(2) /* before MPI has begun */
#pragma omp single
#pragma omp task
    fflush(stdout);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided != MPI_THREAD_MULTIPLE) return 2;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    exchange(1); /* in no task */
#pragma omp parallel num_threads(3) if (end != 'h') /* a thread that has called MPI could still help a hung one */
    {
        exchange(100 + omp_get_thread_num()); /* a thread's part of the region */
#pragma omp single
        for (int k = 0; k < n; k++) {
#pragma omp task KIND firstprivate(k) // parent
            parent(k);
        }
        exchange(200 + omp_get_thread_num());
    }
#pragma omp parallel num_threads(1)
    if (end) {
#pragma omp task // the last
        last(end);
    }
    exchange(2);
    MPI_Finalize();
    return 0;
}
