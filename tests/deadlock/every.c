/* Collectives and makers of communicators on two ranks, each as a deadlock and right.
 *
 *   every NAME       the caller is in NAME, and the other rank waits for a message that the caller would send behind it
 *   every all        both make each call, one after the other, and then the message goes
 *   every list       the names
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 7, MOST = 4 };

/* What the calls are made with. `root`: the rank whose part the caller waits for, where there is a root. */
static int me, other, root, one = 1, ones[MOST] = {1, 1, 1, 1}, places[MOST] = {0, 1, 2, 3}, bytes[MOST] = {0, 4, 8, 12};
static int given[MOST], got[MOST], got_w[MOST], memory[MOST];
static MPI_Datatype types[MOST];
static MPI_Comm made, cart, pair;
static MPI_Group group;
static MPI_Win window;
static MPI_Request request;
static char *program;

static void finish(void) { MPI_Wait(&request, MPI_STATUS_IGNORE); }

static void run_persistent(void) {
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Request_free(&request);
}

static void drop(void) { MPI_Comm_free(&made); }

static void intercomm(void) {
    MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, other, 3, &made);
    drop();
}

static void spawn(void) {
    char *arguments[] = {"child", NULL};
    MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, root, MPI_COMM_WORLD, &made, MPI_ERRCODES_IGNORE);
    MPI_Barrier(made); /* MPICH connects a later parent to a child that may have ended already, and fails */
    MPI_Comm_disconnect(&made);
}

#define WORLD MPI_COMM_WORLD
#define INTS given, 1, MPI_INT
#define INTO got, 1, MPI_INT
#define LISTED(buffer) buffer, ones, places, MPI_INT
#define TYPED(buffer) buffer, ones, bytes, types
#define REDUCED given, got, 1, MPI_INT, MPI_SUM
/* Name, what is waited for (ROOT: the other rank is the root; LOWER: the caller is rank 1; ANY: it does not matter), the call. */
#define CALLS                                                                                                              \
    X(Barrier, ANY, MPI_Barrier(WORLD))                                                                                    \
    X(Bcast, ROOT, MPI_Bcast(given, 1, MPI_INT, root, WORLD))                                                              \
    X(Scatter, ROOT, MPI_Scatter(INTS, INTO, root, WORLD))                                                                 \
    X(Scatterv, ROOT, MPI_Scatterv(LISTED(given), INTO, root, WORLD))                                                      \
    X(Gather, CALLER, MPI_Gather(INTS, INTO, root, WORLD))                                                                 \
    X(Gatherv, CALLER, MPI_Gatherv(INTS, LISTED(got), root, WORLD))                                                        \
    X(Reduce, CALLER, MPI_Reduce(REDUCED, root, WORLD))                                                                    \
    X(Allreduce, ANY, MPI_Allreduce(REDUCED, WORLD))                                                                       \
    X(Reduce_scatter, ANY, MPI_Reduce_scatter(given, got, ones, MPI_INT, MPI_SUM, WORLD))                                  \
    X(Reduce_scatter_block, ANY, MPI_Reduce_scatter_block(REDUCED, WORLD))                                                 \
    X(Allgather, ANY, MPI_Allgather(INTS, INTO, WORLD))                                                                    \
    X(Allgatherv, ANY, MPI_Allgatherv(INTS, LISTED(got), WORLD))                                                           \
    X(Alltoall, ANY, MPI_Alltoall(INTS, INTO, WORLD))                                                                      \
    X(Alltoallv, ANY, MPI_Alltoallv(LISTED(given), LISTED(got), WORLD))                                                    \
    X(Alltoallw, ANY, MPI_Alltoallw(TYPED(given), TYPED(got_w), WORLD))                                                    \
    X(Scan, LOWER, MPI_Scan(REDUCED, WORLD))                                                                               \
    X(Exscan, LOWER, MPI_Exscan(REDUCED, WORLD))                                                                           \
    X(Neighbor_allgather, ANY, MPI_Neighbor_allgather(INTS, INTO, cart))                                                   \
    X(Neighbor_alltoall, ANY, MPI_Neighbor_alltoall(INTS, INTO, cart))                                                     \
    X(Ibarrier, ANY, MPI_Ibarrier(WORLD, &request); finish())                                                              \
    X(Ibcast, ROOT, MPI_Ibcast(given, 1, MPI_INT, root, WORLD, &request); finish())                                        \
    X(Iallreduce, ANY, MPI_Iallreduce(REDUCED, WORLD, &request); finish())                                                 \
    X(Igather, CALLER, MPI_Igather(INTS, INTO, root, WORLD, &request); finish())                                           \
    X(Ialltoall, ANY, MPI_Ialltoall(INTS, INTO, WORLD, &request); finish())                                                \
    X(Barrier_init, ANY, MPI_Barrier_init(WORLD, MPI_INFO_NULL, &request); run_persistent())                               \
    X(Bcast_init, ROOT, MPI_Bcast_init(given, 1, MPI_INT, root, WORLD, MPI_INFO_NULL, &request); run_persistent())         \
    X(Allreduce_init, ANY, MPI_Allreduce_init(REDUCED, WORLD, MPI_INFO_NULL, &request); run_persistent())                  \
    X(Comm_dup, ANY, MPI_Comm_dup(WORLD, &made); drop())                                                                   \
    X(Comm_dup_with_info, ANY, MPI_Comm_dup_with_info(WORLD, MPI_INFO_NULL, &made); drop())                                \
    X(Comm_idup, ANY, MPI_Comm_idup(WORLD, &made, &request); finish(); drop())                                             \
    X(Comm_split, ANY, MPI_Comm_split(WORLD, 0, me, &made); drop())                                                        \
    X(Comm_split_type, ANY, MPI_Comm_split_type(WORLD, MPI_COMM_TYPE_SHARED, me, MPI_INFO_NULL, &made); drop())            \
    X(Comm_create, ANY, MPI_Comm_create(WORLD, group, &made); drop())                                                      \
    X(Comm_create_group, ANY, MPI_Comm_create_group(WORLD, group, 5, &made); drop())                                       \
    X(Cart_create, ANY, MPI_Cart_create(WORLD, 1, (int[]){2}, &one, 0, &made); drop())                                     \
    X(Cart_sub, ANY, MPI_Cart_sub(cart, &one, &made); drop())                                                              \
    X(Graph_create, ANY, MPI_Graph_create(WORLD, 2, (int[]){1, 2}, (int[]){1, 0}, 0, &made); drop())                       \
    X(Dist_graph_create, ANY,                                                                                              \
      MPI_Dist_graph_create(WORLD, 1, &me, &one, &other, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made); drop())                 \
    X(Intercomm_create, ANY, intercomm())                                                                                  \
    X(Intercomm_merge, ANY, MPI_Intercomm_merge(pair, me, &made); drop())                                                  \
    X(Comm_spawn, ROOT, spawn())                                                                                           \
    X(Win_create, ANY, MPI_Win_create(memory, sizeof memory, 4, MPI_INFO_NULL, WORLD, &window); MPI_Win_free(&window))

enum want { ANY, ROOT, CALLER, LOWER };

static void call(const char *name) {
#define X(function, want, ...) if (!strcmp(name, #function)) { __VA_ARGS__; return; }
    CALLS
#undef X
    fprintf(stderr, "no call %s\n", name);
    MPI_Abort(WORLD, 2);
}

static const struct { const char *name; enum want want; } calls[] = {
#define X(function, want, ...) {#function, want},
    CALLS
#undef X
};
enum { COUNT = sizeof calls / sizeof *calls };

static void prepare(void) {
    for (int i = 0; i < MOST; i++) types[i] = MPI_INT;
    MPI_Comm_rank(WORLD, &me);
    other = 1 - me;
    MPI_Comm_group(WORLD, &group);
    MPI_Cart_create(WORLD, 1, (int[]){2}, &one, 0, &cart);
    MPI_Intercomm_create(MPI_COMM_SELF, 0, WORLD, other, 2, &pair);
}

static void end(void) {
    MPI_Comm_free(&pair);
    MPI_Comm_free(&cart);
    MPI_Group_free(&group);
    MPI_Finalize();
}

static int child(void) {
    MPI_Comm parent;
    MPI_Comm_get_parent(&parent);
    MPI_Barrier(parent);
    MPI_Comm_disconnect(&parent);
    return MPI_Finalize();
}

static void wrong(int k) {
    int caller = calls[k].want == LOWER;
    root = calls[k].want == ROOT ? 1 - caller : caller;
    if (me == caller) {
        call(calls[k].name);
        MPI_Send(&one, 1, MPI_INT, other, TAG, WORLD);
    } else {
        MPI_Recv(got, 1, MPI_INT, other, TAG, WORLD, MPI_STATUS_IGNORE);
        call(calls[k].name);
    }
}

static void right(void) {
    for (int k = 0; k < COUNT; k++) call(calls[k].name);
    if (me == 0) MPI_Send(&one, 1, MPI_INT, other, TAG, WORLD);
    else MPI_Recv(got, 1, MPI_INT, other, TAG, WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    program = argv[0];
    if (argc > 1 && !strcmp(argv[1], "list")) {
        for (int k = 0; k < COUNT; k++) puts(calls[k].name);
        return 0;
    }
    MPI_Init(&argc, &argv);
    if (argc > 1 && !strcmp(argv[1], "child")) return child();
    prepare();
    if (!strcmp(argv[1], "all")) right();
    for (int k = 0; k < COUNT; k++)
        if (!strcmp(argv[1], calls[k].name)) wrong(k);
    end();
    return 0;
}
