/* Two exchanges under way at once, as in a multigrid solver: each keeps its requests in a structure that moves about,
 * and each send buffer is used again as soon as its own exchange is over. All sends are short enough to be complete at
 * once, when an MPI may give them one handle. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 8, ROUNDS = 40 };

struct exchange { MPI_Request *requests; int *send, *receive, n; };

static struct exchange start(int tag, int value) {
    int me, n;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    struct exchange x = {malloc(sizeof(MPI_Request) * 2), malloc(sizeof(int) * COUNT * n), malloc(sizeof(int) * COUNT * n), 0};
    for (int other = 0; other < n; other++) {
        if (other == me) continue;
        if (x.n) x.requests = realloc(x.requests, sizeof(MPI_Request) * (x.n + 2)); /* the others move */
        for (int i = 0; i < COUNT; i++) x.send[other * COUNT + i] = value + me;
        MPI_Irecv(x.receive + other * COUNT, COUNT, MPI_INT, other, tag, MPI_COMM_WORLD, x.requests + x.n++);
        MPI_Request sent;
        MPI_Isend(x.send + other * COUNT, COUNT, MPI_INT, other, tag, MPI_COMM_WORLD, &sent);
        x.requests[x.n++] = sent;
    }
    return x;
}

static long finish(struct exchange *x) {
    int me, n;
    long sum = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_Waitall(x->n, x->requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COUNT * n; i++) sum += i / COUNT == me ? 0 : x->receive[i];
    memset(x->send, 0xff, sizeof(int) * COUNT * n); /* its own now */
    int next = (me + 1) % n, before = (me + n - 1) % n;
    MPI_Sendrecv(&sum, 1, MPI_LONG, next, 9, x->send, 1, MPI_LONG, before, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    free(x->requests);
    free(x->send);
    free(x->receive);
    return sum;
}

int main(int argc, char **argv) {
    int me;
    long total = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    for (int round = 0; round < ROUNDS; round++) {
        struct exchange first = start(1, round), second = start(2, 2 * round), third = start(3, 3 * round);
        total += finish(&second); /* not in the order of their starts */
        total += finish(&third);
        total += finish(&first);
    }
    if (!me) printf("exchanged %ld\n", total);
    MPI_Finalize();
    return 0;
}
