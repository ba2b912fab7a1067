/* Any mixture of calls, for ever: mix FOLDER [ROUNDS [ENDING [FROM TO]]]. Works on 1 rank (messages to itself)
 * and on more. Stops itself (SIGSTOP) before the rounds FROM and TO. */
#include <mpi.h>
#include <signal.h>
#include <string.h>

#include "log.h"

static int rank, size, left, right;

static void messages(int i) {
    int tag = i & 0x3fff, out[4] = {i}, in[4];
    MPI_Request requests[2];
    MPI_Status statuses[2], status;
    switch (i % 4) {
    case 0:
        LOGGED(Irecv, tag, (in, 4, MPI_INT, left, tag, MPI_COMM_WORLD, &requests[0]));
        LOGGED(Send, tag, (out, 4, MPI_INT, right, tag, MPI_COMM_WORLD));
        LOGGED(Wait, -1, (&requests[0], MPI_STATUS_IGNORE));
        break;
    case 1:
        LOGGED(Irecv, tag, (in, 4, MPI_INT, left, tag, MPI_COMM_WORLD, &requests[0]));
        LOGGED(Isend, tag, (out, 4, MPI_INT, right, tag, MPI_COMM_WORLD, &requests[1]));
        LOGGED(Waitall, -1, (2, requests, statuses));
        break;
    case 2:
        LOGGED(Sendrecv, tag, (out, 4, MPI_INT, right, tag, in, 4, MPI_INT, left, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        break;
    default:
        LOGGED(Isend, tag, (out, 4, MPI_INT, right, tag, MPI_COMM_WORLD, &requests[0]));
        log_begin(Recv, tag);
        MPI_Recv(in, 4, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
        log_end_source(status.MPI_SOURCE);
        LOGGED(Wait, -1, (&requests[0], &status));
    }
}

static void polls(int i) {
    int found = 0;
    for (int k = 0; k < i % 7; k++) LOGGED(Iprobe, 0x7000, (left, 0x7000, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE));
}

static void objects(int i) {
    MPI_Comm copy;
    MPI_Datatype type;
    if (i % 20 == 0) {
        LOGGED(Comm_dup, -1, (MPI_COMM_WORLD, &copy));
        LOGGED(Comm_free, -1, (&copy));
    }
    LOGGED(Type_contiguous, -1, (1 + i % 50, MPI_INT, &type));
    LOGGED(Type_commit, -1, (&type));
    LOGGED(Type_free, -1, (&type));
}

static void collectives(int i) {
    int value = i, sum, *all = calloc((size_t)size, sizeof *all), *counts = calloc((size_t)size * 2, sizeof *counts);
    for (int k = 0; k < size; k++) counts[k] = 1, counts[size + k] = k;
    LOGGED(Allreduce, -1, (&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    LOGGED(Gatherv, -1, (&value, 1, MPI_INT, all, counts, counts + size, MPI_INT, i % size, MPI_COMM_WORLD));
    LOGGED(Bcast, -1, (&value, 1, MPI_INT, i % size, MPI_COMM_WORLD));
    if (i % 3 == 0) LOGGED(Barrier, -1, (MPI_COMM_WORLD));
    free(all);
    free(counts);
}

/* What the last rank does after its rounds; the others wait for a message that does not come. */
static void end(const char *how) {
    int nothing;
    if (!strcmp(how, "finalize")) LOGGED(Finalize, -1, ());
    else if (rank != size - 1) LOGGED(Recv, 0x7001, (&nothing, 1, MPI_INT, size - 1, 0x7001, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    else if (!strcmp(how, "abort")) LOGGED(Abort, -1, (MPI_COMM_WORLD, 7));
    else if (!strcmp(how, "segfault")) *(volatile int *)(uintptr_t)(rank >= 0 ? 8 : 0) = 1;
    else if (!strcmp(how, "exit")) exit(5);
    else if (!strcmp(how, "kill")) kill(getpid(), SIGKILL);
    else if (!strcmp(how, "deadlock"))
        LOGGED(Recv, 0x7002, (&nothing, 1, MPI_INT, 0, 0x7002, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv) {
    long rounds = argc > 2 ? atol(argv[2]) : 0;
    log_open(argv[1]);
    LOGGED(Init, -1, (&argc, &argv));
    LOGGED(Comm_rank, -1, (MPI_COMM_WORLD, &rank));
    LOGGED(Comm_size, -1, (MPI_COMM_WORLD, &size));
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    int from = argc > 5 ? atoi(argv[4]) : -1, to = argc > 5 ? atoi(argv[5]) : -1;
    for (int i = 0; !rounds || i < rounds; i++) {
        if (i == from || i == to) raise(SIGSTOP);
        messages(i);
        if (i % 5 == 0) polls(i);
        if (i % 11 == 0) collectives(i);
        if (i % 17 == 0) objects(i);
    }
    end(argc > 3 ? argv[3] : "finalize");
    return 0;
}
