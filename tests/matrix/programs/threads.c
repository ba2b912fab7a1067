/* Two threads of each rank exchange at the same time, each on a communicator of its own. */
#include <pthread.h>

#include "log.h"

static int rank, size;
static MPI_Comm comms[2];

static void *exchange(void *argument) {
    int me = (int)(intptr_t)argument, out[2] = {rank, me}, in[2] = {0, 0}, next = (rank + 1) % size, previous = (rank + size - 1) % size;
    MPI_Comm comm = comms[me];
    MPI_Request requests[2];
    MPI_Status statuses[2];
    log_thread = me;
    for (int round = 0; round < 20; round++) {
        CALL(MPI_Irecv, in, 2, MPI_INT, previous, round, comm, &requests[0]);
        CALL(MPI_Isend, out, 2, MPI_INT, next, round, comm, &requests[1]);
        CALL(MPI_Waitall, 2, requests, statuses);
        CALL(MPI_Sendrecv, out, 2, MPI_INT, next, 100 + me, in, 2, MPI_INT, previous, 100 + me, comm, MPI_STATUS_IGNORE);
    }
    return NULL;
}

int main(void) {
    int provided = 0;
    pthread_t other;
    log_open();
    log_meanings();
    CALL(MPI_Init_thread, NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    CALL(MPI_Comm_rank, MPI_COMM_WORLD, &rank);
    CALL(MPI_Comm_size, MPI_COMM_WORLD, &size);
    CALL(MPI_Comm_dup, MPI_COMM_WORLD, &comms[0]);
    CALL(MPI_Comm_dup, MPI_COMM_WORLD, &comms[1]);
    if (provided < MPI_THREAD_MULTIPLE) return 77;
    pthread_create(&other, NULL, exchange, (void *)1);
    exchange((void *)0);
    pthread_join(other, NULL);
    CALL(MPI_Comm_free, &comms[0]);
    CALL(MPI_Comm_free, &comms[1]);
    CALL0(MPI_Finalize);
    return 0;
}
