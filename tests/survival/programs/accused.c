/* Crashes by a fault of its own, where the recorder's code is on the stack, or runs when the signal comes. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define NOWHERE ((void *)64)

static void combine(void *in, void *out, int *n, MPI_Datatype *type) {
    (void)in, (void)out, (void)n, (void)type;
    *(volatile int *)NOWHERE = 1;
}

static int leave(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)extra;
    return *(volatile int *)value;
}

static int deep(int n) {
    char room[256];
    int rank;
    memset(room, n, sizeof room);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return deep(n + 1) + room[n % 256] + rank;
}

static void by_operation(void) {
    int one = 1, sum = 0;
    MPI_Op op;
    MPI_Op_create(combine, 1, &op);
    MPI_Reduce_local(&one, &sum, 1, MPI_INT, op);
}

static void by_attribute(void) {
    int key;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, leave, &key, NULL);
    MPI_Comm_set_attr(comm, key, NOWHERE);
    MPI_Comm_free(&comm);
}

static void by_heap(void) {
    enum { N = 64 };
    static int buffers[N];
    MPI_Request requests[N];
    volatile char *block = malloc(40);
    for (int i = 0; i < 4096; i++) block[i] = 'A';
    for (int i = 0; i < N; i++) MPI_Irecv(&buffers[i], 1, MPI_INT, 0, i, MPI_COMM_SELF, &requests[i]);
}

/* A jump to the C library: its frame is gone. */
static void *copy(void *text) { return strdup(text); }

static void by_thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, copy, NOWHERE);
    pthread_join(thread, NULL);
}

static void by_counts(void) {
    int in[2], out[2];
    MPI_Alltoallv(in, NOWHERE, NOWHERE, MPI_INT, out, NOWHERE, NOWHERE, MPI_INT, MPI_COMM_SELF);
}

static void by_contents(void *numbers) {
    int n, m, k, how, count[3];
    MPI_Aint places[1];
    MPI_Datatype type, types[1];
    MPI_Type_vector(2, 1, 2, MPI_INT, &type);
    MPI_Type_get_envelope(type, &n, &m, &k, &how);
    MPI_Type_get_contents(type, n, m, k, numbers ? numbers : count, places, types);
    MPI_Type_free(&type);
}

/* MPI comes to the program's buffer while it does something else. */
static void by_progress(void) {
    int flag = 0, one = 1;
    MPI_Request requests[2];
    MPI_Irecv(NOWHERE, 1 << 20, MPI_BYTE, 0, 1, MPI_COMM_SELF, &requests[0]);
    MPI_Isend(&one, 4, MPI_BYTE, 0, 1, MPI_COMM_SELF, &requests[1]);
    while (!flag) MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    const char *how = argv[1];
    if (!strcmp(how, "operation")) by_operation();
    if (!strcmp(how, "attribute")) by_attribute();
    if (!strcmp(how, "heap")) by_heap();
    if (!strcmp(how, "counts")) by_counts();
    if (!strcmp(how, "thread")) by_thread();
    if (!strcmp(how, "contents")) by_contents(NOWHERE);
    if (!strcmp(how, "types")) by_contents(NULL);
    if (!strcmp(how, "progress")) by_progress();
    if (!strcmp(how, "requests")) MPI_Waitall(2, NOWHERE, MPI_STATUSES_IGNORE);
    if (!strcmp(how, "request")) MPI_Wait(NOWHERE, MPI_STATUS_IGNORE);
    if (!strcmp(how, "name")) MPI_Comm_set_name(MPI_COMM_SELF, NOWHERE);
    if (!strcmp(how, "action")) sigaction(SIGSEGV, NOWHERE, NULL);
    if (!strcmp(how, "stack")) return deep(0);
    if (!strcmp(how, "sent")) raise(SIGSEGV);
    MPI_Finalize();
    return 0;
}
