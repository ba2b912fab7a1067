/* Right programs side by side with one error each: `right` runs what the standard allows, `wrong` the twin.
 * A line with the comment BUG is one that a finding of that kind must name in the wrong run; there are no others. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int me, n, wrong, refused;
static int a[64], b[64], c[64], d[64];
static MPI_Comm world;

#define OK(call) \
    do { \
        if ((call) != MPI_SUCCESS) refused++, fprintf(stderr, "%d refused: %s\n", __LINE__, #call); \
    } while (0)

static void in_place(void) {
    OK(MPI_Allgather(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, b, 1, MPI_INT, world));
    OK(MPI_Alltoall(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, b, 1, MPI_INT, world));
    int counts[3] = {1, 1, 1}, displs[3] = {0, 1, 2}, bad[3] = {-1, -1, -1};
    MPI_Datatype types[3] = {MPI_INT, MPI_INT, MPI_INT};
    int bytes[3] = {0, 4, 8};
    OK(MPI_Allgatherv(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, b, counts, displs, MPI_INT, world));
    OK(MPI_Alltoallv(MPI_IN_PLACE, bad, bad, MPI_DATATYPE_NULL, b, counts, displs, MPI_INT, world));
    OK(MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, b, counts, bytes, types, world));
    OK(MPI_Gather(me ? (void *)a : MPI_IN_PLACE, me ? 1 : -1, me ? MPI_INT : MPI_DATATYPE_NULL, me ? NULL : b, me ? -1 : 1, me ? MPI_DATATYPE_NULL : MPI_INT, 0, world));
    OK(MPI_Scatter(me ? NULL : b, me ? -1 : 1, me ? MPI_DATATYPE_NULL : MPI_INT, me ? (void *)a : MPI_IN_PLACE, me ? 1 : -1, me ? MPI_INT : MPI_DATATYPE_NULL, 0, world));
    OK(MPI_Gatherv(me ? (void *)a : MPI_IN_PLACE, me ? 1 : -1, me ? MPI_INT : MPI_DATATYPE_NULL, me ? NULL : b, me ? bad : counts, me ? bad : displs, me ? MPI_DATATYPE_NULL : MPI_INT, 0, world));
    OK(MPI_Scatterv(me ? NULL : b, me ? bad : counts, me ? bad : displs, me ? MPI_DATATYPE_NULL : MPI_INT, me ? (void *)a : MPI_IN_PLACE, me ? 1 : -1, me ? MPI_INT : MPI_DATATYPE_NULL, 0, world));
    OK(MPI_Reduce(a, me ? a : b, 1, MPI_INT, MPI_SUM, 0, world));
}

static void in_place_nonblocking(void) {
    MPI_Request r;
    int counts[3] = {1, 1, 1}, displs[3] = {0, 1, 2}, bad[3] = {-1, -1, -1};
    OK(MPI_Iallgather(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, b, 1, MPI_INT, world, &r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Ialltoallv(MPI_IN_PLACE, bad, bad, MPI_DATATYPE_NULL, b, counts, displs, MPI_INT, world, &r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Igatherv(me ? (void *)a : MPI_IN_PLACE, me ? 1 : -1, me ? MPI_INT : MPI_DATATYPE_NULL, me ? NULL : b, me ? bad : counts, me ? bad : displs, me ? MPI_DATATYPE_NULL : MPI_INT, 0, world, &r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Iscatterv(me ? NULL : b, me ? bad : counts, me ? bad : displs, me ? MPI_DATATYPE_NULL : MPI_INT, me ? (void *)a : MPI_IN_PLACE, me ? 1 : -1, me ? MPI_INT : MPI_DATATYPE_NULL, 0, world, &r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
#if MPI_VERSION >= 4
    OK(MPI_Allgather_init(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, b, 1, MPI_INT, world, MPI_INFO_NULL, &r));
    OK(MPI_Start(&r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&r));
    OK(MPI_Gather_init(me ? (void *)a : MPI_IN_PLACE, me ? 1 : -1, me ? MPI_INT : MPI_DATATYPE_NULL, me ? NULL : b, me ? -1 : 1, me ? MPI_DATATYPE_NULL : MPI_INT, 0, world, MPI_INFO_NULL, &r));
    OK(MPI_Start(&r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&r));
#endif
}

/* A wait for a persistent request that is not active waits for nothing, and its buffer is the program's. */
static void inactive_buffers(void) {
    MPI_Request r;
    if (me > 1) return;
    if (me) OK(MPI_Recv_init(a, 1, MPI_INT, 0, 3, world, &r));
    else OK(MPI_Send_init(a, 1, MPI_INT, 1, 3, world, &r));
    a[0] = 7;
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Start(&r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    a[0] = 9;
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&r));
}

static void counts_that_matter(void) {
    if (!wrong) return;
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, b, -1, MPI_INT, world); /* BUG invalid-argument */
    MPI_Gather(a, -1, MPI_INT, b, 1, MPI_INT, 0, MPI_COMM_SELF); /* BUG invalid-argument */
    int bad[1] = {-1}, zero[1] = {0};
    MPI_Gatherv(a, 1, MPI_INT, b, bad, zero, MPI_INT, 0, MPI_COMM_SELF); /* BUG invalid-argument */
    MPI_Scatter(a, -1, MPI_INT, MPI_IN_PLACE, 1, MPI_INT, 0, MPI_COMM_SELF); /* BUG invalid-argument */
    MPI_Gather(me == 1 ? MPI_IN_PLACE : (void *)a, 0, MPI_INT, b, 0, MPI_INT, 0, world); /* BUG invalid-argument */
}

static void nobody(void) {
    MPI_Status s;
    OK(MPI_Send(NULL, 0, MPI_INT, MPI_PROC_NULL, 7, world));
    OK(MPI_Recv(NULL, 0, MPI_INT, MPI_PROC_NULL, 7, world, &s));
    OK(MPI_Sendrecv(a, 1, MPI_INT, MPI_PROC_NULL, 1, a, 1, MPI_INT, MPI_PROC_NULL, 1, world, &s));
    if (wrong) MPI_Send(a, 1, MPI_INT, n + 3, 1, world); /* BUG invalid-argument */
}

static void nothing(void) {
    OK(MPI_Bcast(a, 0, me ? MPI_DOUBLE : MPI_INT, 0, world));
    OK(MPI_Gather(a, 0, me ? MPI_DOUBLE : MPI_INT, b, 0, MPI_FLOAT, 0, world));
    if (wrong) MPI_Bcast(a, 1, me ? MPI_FLOAT : MPI_INT, 0, world); /* BUG argument-mismatch */ /* BUG type-mismatch */
}

/* A datatype without bytes, as libraries make it of a part of a matrix that has no rows here. */
static void no_bytes(void) {
    MPI_Datatype t;
    MPI_Request rs[3];
    int length[1] = {0}, right = (me + 1) % n, left = (me + n - 1) % n;
    MPI_Aint at[1] = {0};
    MPI_Datatype of[1] = {MPI_INT};
    OK(MPI_Type_create_struct(1, length, at, of, &t));
    OK(MPI_Type_commit(&t));
    OK(MPI_Sendrecv(a, 1, t, right, 1, a, 1, t, left, 1, world, MPI_STATUS_IGNORE));
    OK(MPI_Irecv(a, 1, t, left, 2, world, rs));
    OK(MPI_Irecv(a, 1, t, left, 3, world, rs + 1));
    OK(MPI_Isend(a, 1, t, right, 2, world, rs + 2));
    OK(MPI_Send(a, 1, t, right, 3, world));
    OK(MPI_Waitall(3, rs, MPI_STATUSES_IGNORE));
    OK(MPI_Bcast(a, 1, t, 0, world));
    OK(MPI_Type_free(&t));
    if (wrong) MPI_Sendrecv(a, 1, MPI_INT, right, 4, a, 1, MPI_INT, left, 4, world, MPI_STATUS_IGNORE); /* BUG invalid-argument */
}

static void cart_edges(void) {
    MPI_Comm line;
    int dims[1] = {n}, periods[1] = {0};
    OK(MPI_Cart_create(world, 1, dims, periods, 0, &line));
    int counts[2] = {1, 1}, displs[2] = {0, 1};
    OK(MPI_Neighbor_alltoall(a, 1, MPI_INT, b, 1, MPI_INT, line));
    OK(MPI_Neighbor_alltoallv(a, counts, displs, MPI_INT, b, counts, displs, MPI_INT, line));
    OK(MPI_Comm_free(&line));
}

static void operations(void) {
    char x = 1, y = 0;
    OK(MPI_Allreduce(&x, &y, 1, MPI_SIGNED_CHAR, MPI_MAX, world));
    if (wrong) MPI_Allreduce(&x, &y, 1, MPI_CHAR, MPI_MAX, world); /* BUG invalid-argument warning */
}

static void no_op(void) {
    MPI_Win w;
    OK(MPI_Win_create(c, sizeof c, 4, MPI_INFO_NULL, world, &w));
    OK(MPI_Win_fence(0, w));
    OK(MPI_Get_accumulate(NULL, 0, MPI_INT, b, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_NO_OP, w));
    OK(MPI_Get(d, 1, MPI_INT, 0, 0, 1, MPI_INT, w));
    OK(MPI_Put(a, 0, MPI_INT, 0, 4000, 0, MPI_INT, w));
    OK(MPI_Win_fence(0, w));
    if (wrong && me == 1) MPI_Get_accumulate(NULL, 0, MPI_INT, b, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_NO_OP, w);
    if (wrong && me == 2) MPI_Put(a, 1, MPI_INT, 0, 0, 1, MPI_INT, w); /* BUG rma-race */
    OK(MPI_Win_fence(0, w));
    OK(MPI_Win_free(&w));
}

static void exposures(void) {
    MPI_Win w;
    MPI_Group all, zero, one;
    OK(MPI_Win_create(c, sizeof c, 4, MPI_INFO_NULL, world, &w));
    OK(MPI_Comm_group(world, &all));
    for (int turn = 1; turn < 3; turn++) {
        int target = 0, origin = turn;
        OK(MPI_Group_incl(all, 1, &target, &zero));
        OK(MPI_Group_incl(all, 1, &origin, &one));
        if (me == 0) {
            OK(MPI_Win_post(one, 0, w));
            OK(MPI_Win_wait(w));
        } else if (me == turn) {
            OK(MPI_Win_start(zero, 0, w));
            OK(MPI_Put(a, 1, MPI_INT, 0, 0, 1, MPI_INT, w));
            OK(MPI_Win_complete(w));
        }
        OK(MPI_Group_free(&zero));
        OK(MPI_Group_free(&one));
    }
    if (wrong) { /* both in one exposure */
        int target = 0, both[2] = {1, 2};
        OK(MPI_Group_incl(all, 1, &target, &zero));
        OK(MPI_Group_incl(all, 2, both, &one));
        if (me == 0) {
            OK(MPI_Win_post(one, 0, w));
            OK(MPI_Win_wait(w));
        } else {
            OK(MPI_Win_start(zero, 0, w));
            OK(MPI_Put(a, 1, MPI_INT, 0, 0, 1, MPI_INT, w)); /* BUG rma-race */
            OK(MPI_Win_complete(w));
        }
        OK(MPI_Group_free(&zero));
        OK(MPI_Group_free(&one));
    }
    OK(MPI_Group_free(&all));
    OK(MPI_Win_free(&w));
}

static void accumulates(void) {
    MPI_Win w;
    OK(MPI_Win_create(c, sizeof c, 4, MPI_INFO_NULL, world, &w));
    OK(MPI_Win_fence(0, w));
    if (me == 1) {
        OK(MPI_Accumulate(a, 2, MPI_INT, 0, 0, 2, MPI_INT, MPI_SUM, w));
        OK(MPI_Accumulate(b, 2, MPI_INT, 0, 0, 2, MPI_INT, MPI_MAX, w));
        OK(MPI_Accumulate(d, 2, MPI_INT, 0, 1, 2, MPI_INT, MPI_REPLACE, w));
    }
    OK(MPI_Win_fence(0, w));
    OK(MPI_Win_free(&w));
    OK(MPI_Win_create(c, sizeof c, 1, MPI_INFO_NULL, world, &w));
    OK(MPI_Win_fence(0, w));
    if (wrong && me == 1) MPI_Accumulate(a, 2, MPI_INT, 0, 0, 2, MPI_INT, MPI_SUM, w);
    if (wrong && me == 2) MPI_Accumulate(a, 2, MPI_INT, 0, 2, 2, MPI_INT, MPI_SUM, w); /* BUG rma-race */
    OK(MPI_Win_fence(0, w));
    if (wrong && me == 1) MPI_Accumulate(a, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, w);
    if (wrong && me == 2) MPI_Accumulate(a, 1, MPI_FLOAT, 0, 0, 1, MPI_FLOAT, MPI_SUM, w); /* BUG rma-race */ /* BUG type-mismatch */
    OK(MPI_Win_fence(0, w));
    OK(MPI_Win_free(&w));
}

static void passive(void) {
    MPI_Win w;
    MPI_Request r;
    OK(MPI_Win_create(c, sizeof c, 4, MPI_INFO_NULL, world, &w));
    OK(MPI_Win_lock_all(0, w));
    if (me == 1) {
        OK(MPI_Put(a, 1, MPI_INT, 0, 0, 1, MPI_INT, w));
        OK(MPI_Win_flush(0, w));
    }
    OK(MPI_Barrier(world));
    if (me == 2) {
        OK(MPI_Put(a, 1, MPI_INT, 0, 0, 1, MPI_INT, w));
        OK(MPI_Win_flush_all(w));
    }
    OK(MPI_Barrier(world));
    if (me == 1) { /* a fetch that is complete has happened */
        OK(MPI_Rget(b, 1, MPI_INT, 0, 0, 1, MPI_INT, w, &r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        OK(MPI_Put(a, 1, MPI_INT, 0, 0, 1, MPI_INT, w));
        OK(MPI_Win_flush(0, w));
        OK(MPI_Rget(b, 1, MPI_INT, 0, 0, 1, MPI_INT, w, &r));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        OK(MPI_Send(a, 1, MPI_INT, 2, 5, world));
    } else if (me == 2) {
        OK(MPI_Recv(d, 1, MPI_INT, 1, 5, world, MPI_STATUS_IGNORE));
        OK(MPI_Put(a, 1, MPI_INT, 0, 0, 1, MPI_INT, w));
        OK(MPI_Win_flush(0, w));
    }
    OK(MPI_Barrier(world));
    if (wrong && me == 1) {
        MPI_Put(a, 1, MPI_INT, 0, 8, 1, MPI_INT, w);
        MPI_Win_flush_local(0, w);
        MPI_Send(a, 1, MPI_INT, 2, 5, world);
    } else if (wrong && me == 2) {
        MPI_Recv(d, 1, MPI_INT, 1, 5, world, MPI_STATUS_IGNORE);
        MPI_Put(a, 1, MPI_INT, 0, 8, 1, MPI_INT, w); /* BUG rma-race */
    }
    if (wrong && me == 1) {
        MPI_Rput(a, 1, MPI_INT, 0, 12, 1, MPI_INT, w, &r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        MPI_Get(b, 1, MPI_INT, 0, 12, 1, MPI_INT, w); /* BUG rma-race */
    }
    OK(MPI_Win_unlock_all(w));
    OK(MPI_Win_free(&w));
}

static void inactive(void) {
    MPI_Request r, q;
    int flag;
    int to = (me + 1) % n, from = (me + n - 1) % n;
    OK(MPI_Recv_init(b, 1, MPI_INT, from, 6, world, &r));
    OK(MPI_Test(&r, &flag, MPI_STATUS_IGNORE));
    OK(MPI_Recv(b, 0, MPI_INT, MPI_PROC_NULL, 6, world, MPI_STATUS_IGNORE));
    for (int i = 0; i < 3; i++) {
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        OK(MPI_Irecv(b, 1, MPI_INT, from, 7, world, &q)); /* the buffer of an inactive one is free */
        OK(MPI_Send(a, 1, MPI_INT, to, 7, world));
        OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
        OK(MPI_Start(&r));
        OK(MPI_Send(a, 1, MPI_INT, to, 6, world));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
        OK(MPI_Waitall(1, &r, MPI_STATUSES_IGNORE));
        OK(MPI_Test(&r, &flag, MPI_STATUS_IGNORE));
    }
    if (wrong) {
        OK(MPI_Start(&r));
        OK(MPI_Irecv(b, 1, MPI_INT, from, 7, world, &q)); /* BUG buffer-reuse */
        OK(MPI_Send(a, 1, MPI_INT, to, 7, world));
        OK(MPI_Send(a, 1, MPI_INT, to, 6, world));
        OK(MPI_Wait(&q, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    }
    OK(MPI_Request_free(&r));
}

static void cancelled(void) {
    MPI_Request r, two[2];
    OK(MPI_Irecv(b, 1, MPI_INT, (me + 1) % n, 8, world, &r));
    OK(MPI_Cancel(&r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Irecv(b, 1, MPI_INT, (me + 1) % n, 8, world, &r));
    OK(MPI_Cancel(&r));
    OK(MPI_Request_free(&r));
    OK(MPI_Irecv(b, 1, MPI_INT, (me + 1) % n, 8, world, &two[0]));
    OK(MPI_Irecv(b + 1, 1, MPI_INT, MPI_ANY_SOURCE, 8, world, &two[1]));
    OK(MPI_Cancel(&two[0]));
    OK(MPI_Cancel(&two[1]));
    OK(MPI_Waitall(2, two, MPI_STATUSES_IGNORE));
    OK(MPI_Irecv(b, 1, MPI_INT, (me + 1) % n, 8, world, &r));
    OK(MPI_Cancel(&r));
    OK(MPI_Request_free(&r)); /* what comes now is for the next one */
    OK(MPI_Barrier(world));
    double x = 0, y = 0;
    OK(MPI_Sendrecv(&x, 1, MPI_DOUBLE, (me + n - 1) % n, 8, &y, 1, MPI_DOUBLE, (me + 1) % n, 8, world, MPI_STATUS_IGNORE));
    if (wrong) OK(MPI_Irecv(d + 8, 1, MPI_INT, (me + 1) % n, 9, world, &r)); /* BUG request-leak */
}

static void local_buffers(void) {
    MPI_Win w;
    MPI_Request r;
    int to = (me + 1) % n, one = 1, two = 2;
    OK(MPI_Win_create(c, sizeof c, 4, MPI_INFO_NULL, world, &w));
    OK(MPI_Win_lock_all(0, w));
    OK(MPI_Rput(a, 1, MPI_INT, to, 20, 1, MPI_INT, w, &r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Sendrecv(d, 1, MPI_INT, to, 1, a, 1, MPI_INT, (me + n - 1) % n, 1, world, MPI_STATUS_IGNORE));
    OK(MPI_Put(a + 1, 1, MPI_INT, to, 21, 1, MPI_INT, w));
    OK(MPI_Win_flush_local(to, w));
    OK(MPI_Fetch_and_op(NULL, a + 1, MPI_INT, to, 22, MPI_NO_OP, w));
    OK(MPI_Win_flush_local_all(w));
    OK(MPI_Compare_and_swap(&one, &two, a + 1, MPI_INT, to, 23, w));
    OK(MPI_Win_flush(to, w));
    OK(MPI_Rget(a + 1, 1, MPI_INT, to, 24, 1, MPI_INT, w, &r));
    OK(MPI_Wait(&r, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(world));
    if (wrong && me == 1) {
        MPI_Rget(b, 2, MPI_INT, to, 30, 2, MPI_INT, w, &r);
        MPI_Put(b + 1, 1, MPI_INT, to, 40, 1, MPI_INT, w); /* BUG buffer-reuse */
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        MPI_Win_flush_all(w);
        MPI_Fetch_and_op(&one, b + 4, MPI_INT, to, 41, MPI_SUM, w);
        MPI_Fetch_and_op(&one, b + 4, MPI_INT, to, 42, MPI_SUM, w); /* BUG buffer-reuse */
        MPI_Win_flush_all(w);
        MPI_Compare_and_swap(&one, b + 5, b + 6, MPI_INT, to, 43, w);
        MPI_Get(b + 5, 1, MPI_INT, to, 44, 1, MPI_INT, w); /* BUG buffer-reuse */
        MPI_Win_flush_all(w);
        MPI_Get_accumulate(&one, 1, MPI_INT, b + 7, 1, MPI_INT, to, 45, 1, MPI_INT, MPI_SUM, w);
        MPI_Rput(b + 7, 1, MPI_INT, to, 46, 1, MPI_INT, w, &r); /* BUG buffer-reuse */
        MPI_Wait(&r, MPI_STATUS_IGNORE);
        MPI_Win_flush_all(w);
        MPI_Irecv(b + 8, 1, MPI_INT, 1, 30, MPI_COMM_WORLD, &r);
        MPI_Accumulate(b + 8, 1, MPI_INT, to, 47, 1, MPI_INT, MPI_SUM, w); /* BUG buffer-reuse */
        MPI_Win_flush_all(w);
        MPI_Send(d, 1, MPI_INT, 1, 30, MPI_COMM_WORLD);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    OK(MPI_Win_unlock_all(w));
    OK(MPI_Win_free(&w));
}

static void leaving_early(void) {
    MPI_Request r;
    if (me == 0) OK(MPI_Send(a, 1, MPI_INT, 1, 40, world));
    if (me == 1) OK(MPI_Recv(b, 1, MPI_INT, 0, 40, world, MPI_STATUS_IGNORE));
    OK(MPI_Bcast(d, 1, MPI_INT, 0, world));
    if (wrong && me == 1) MPI_Recv(b, 1, MPI_INT, 0, 41, world, MPI_STATUS_IGNORE);
    if (wrong) MPI_Bcast(d, 1, MPI_INT, 0, world); /* BUG potential-deadlock warning */
    if (wrong && me == 0) MPI_Send(a, 1, MPI_INT, 1, 41, world);
    MPI_Barrier(world);
    if (wrong && me == 0) {
        MPI_Irecv(b, 1, MPI_INT, 1, 42, world, &r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    if (wrong) MPI_Gather(d, 1, MPI_INT, c, 1, MPI_INT, 0, world); /* BUG potential-deadlock warning */
    if (wrong && me == 1) MPI_Send(a, 1, MPI_INT, 0, 42, world);
}

static void epochs_within(void) {
    MPI_Win w;
    OK(MPI_Win_create(c, sizeof c, 4, MPI_INFO_NULL, world, &w));
    OK(MPI_Win_fence(0, w));
    OK(MPI_Put(a, 1, MPI_INT, me, 50, 1, MPI_INT, w));
    OK(MPI_Win_fence(0, w)); /* the last one: what follows is not an epoch of fences */
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, (me + 1) % n, 0, w));
    OK(MPI_Put(a, 1, MPI_INT, (me + 1) % n, 51, 1, MPI_INT, w));
    OK(MPI_Win_unlock((me + 1) % n, w));
    OK(MPI_Barrier(world));
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, w));
    OK(MPI_Put(a, 1, MPI_INT, me, 52, 1, MPI_INT, w));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w));
    if (wrong) {
        MPI_Win_set_errhandler(w, MPI_ERRORS_RETURN);
        MPI_Win_fence(0, w);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, w); /* BUG epoch-misuse warning */
        MPI_Put(a, 1, MPI_INT, me, 53, 1, MPI_INT, w);
        MPI_Win_unlock(me, w);
        MPI_Win_fence(0, w);
    }
    OK(MPI_Win_free(&w));
}

static void exposed_origin(void) {
    MPI_Win w;
    OK(MPI_Win_create(c, sizeof c, 4, MPI_INFO_NULL, world, &w));
    OK(MPI_Win_fence(0, w));
    if (me == 1) OK(MPI_Put(c + 2, 1, MPI_INT, 2, 3, 1, MPI_INT, w)); /* from what nobody touches */
    if (me == 0) OK(MPI_Get(b, 1, MPI_INT, 1, 2, 1, MPI_INT, w));     /* or only reads */
    OK(MPI_Win_fence(0, w));
    if (me == 0) OK(MPI_Put(a, 1, MPI_INT, 1, 2, 1, MPI_INT, w));
    OK(MPI_Win_fence(0, w));
    if (wrong && me == 1) MPI_Put(c + 2, 1, MPI_INT, 2, 3, 1, MPI_INT, w);
    if (wrong && me == 0) MPI_Put(a, 1, MPI_INT, 1, 2, 1, MPI_INT, w); /* BUG rma-race */
    OK(MPI_Win_fence(0, w));
    if (wrong && me == 1) MPI_Get(c + 5, 1, MPI_INT, 2, 3, 1, MPI_INT, w);
    if (wrong && me == 0) MPI_Get(b, 1, MPI_INT, 1, 5, 1, MPI_INT, w); /* BUG rma-race */
    OK(MPI_Win_fence(0, w));
    OK(MPI_Win_lock_all(0, w));
    if (me == 1) {
        OK(MPI_Put(c + 7, 1, MPI_INT, 2, 8, 1, MPI_INT, w));
        OK(MPI_Win_flush_local(2, w));
        OK(MPI_Send(d, 1, MPI_INT, 0, 60, world));
    } else if (me == 0) {
        OK(MPI_Recv(d, 1, MPI_INT, 1, 60, world, MPI_STATUS_IGNORE));
        OK(MPI_Put(a, 1, MPI_INT, 1, 7, 1, MPI_INT, w));
    }
    OK(MPI_Win_unlock_all(w));
    OK(MPI_Barrier(world));
    OK(MPI_Win_lock_all(0, w));
    if (wrong && me == 1) MPI_Put(c + 9, 1, MPI_INT, 2, 10, 1, MPI_INT, w);
    if (wrong && me == 0) MPI_Put(a, 1, MPI_INT, 1, 9, 1, MPI_INT, w); /* BUG rma-race */
    OK(MPI_Win_unlock_all(w));
    OK(MPI_Win_free(&w));
}

static void memory_of_variables(void) {
    double *x = malloc(64);
    void *block = malloc(64);
    char bytes[64] = {0};
    double doubles[4] = {0};
    unsigned u[4] = {0};
    struct { double re, im; } pair[2] = {{0}};
    double _Complex z[2] = {0};
    enum { ONE, TWO } e = me ? ONE : TWO;
    struct { int n; float f[3]; } s[2] = {{0}};
    union { double f; long i; } either = {0};
    int few[4] = {0};
    OK(MPI_Bcast(bytes, 8, MPI_DOUBLE, 0, world)); /* room for anything */
    OK(MPI_Bcast(doubles, 32, MPI_BYTE, 0, world));
    OK(MPI_Bcast(u, 4, MPI_INT, 0, world));
    OK(MPI_Bcast(pair, 4, MPI_DOUBLE, 0, world));
    OK(MPI_Bcast(z, 4, MPI_DOUBLE, 0, world));
    OK(MPI_Bcast(z, 2, MPI_C_DOUBLE_COMPLEX, 0, world));
    OK(MPI_Bcast(&e, 1, MPI_INT, 0, world));
    OK(MPI_Bcast(&s[1].f[0], 3, MPI_FLOAT, 0, world));
    OK(MPI_Bcast(block, 8, MPI_DOUBLE, 0, world));
    OK(MPI_Bcast(block, 16, MPI_INT, 0, world));
    OK(MPI_Bcast((int *)x, 4, MPI_INT, 0, world)); /* the cast says that it is meant */
    OK(MPI_Bcast(&either, 1, MPI_LONG, 0, world));
    OK(MPI_Bcast(few, 0, MPI_INT, 0, world));
    OK(MPI_Send(few, 400, MPI_INT, MPI_PROC_NULL, 1, world));
    OK(MPI_Gather(a, 1, MPI_INT, me ? few : b, 1, MPI_INT, 0, world)); /* no more than a root's */
    OK(MPI_Reduce(few, me ? NULL : b, 4, MPI_INT, MPI_SUM, 0, world));
    for (int m = 1; m < 40; m *= 2) { /* lengths that only the run knows, at places that are used again */
        int vla[m], *heap = malloc((size_t)m * sizeof(int));
        for (int i = 0; i < m; i++) vla[i] = heap[i] = i;
        OK(MPI_Bcast(vla, m, MPI_INT, 0, world));
        OK(MPI_Bcast(heap, m, MPI_INT, 0, world));
        free(heap);
    }
    if (wrong) MPI_Bcast(few, 5, MPI_INT, 0, world); /* BUG buffer-overrun */
    if (wrong) MPI_Bcast(doubles, 4, MPI_FLOAT, 0, world); /* BUG type-mismatch */
    if (wrong) MPI_Bcast(x, 4, MPI_INT, 0, world); /* BUG type-mismatch warning */
    static double kept[6];
    OK(MPI_Bcast(kept, 6, MPI_DOUBLE, 0, world));
    if (wrong) MPI_Bcast(kept, 12, MPI_FLOAT, 0, world); /* BUG type-mismatch */
    struct { double value; int id; } cells[3] = {{0, 0}};
    MPI_Datatype parts[2] = {MPI_DOUBLE, MPI_INT}, plain, sized, several, tight;
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 8}, parts, &plain);
    MPI_Type_create_resized(plain, 0, sizeof cells[0], &sized);
    MPI_Type_create_resized(plain, 0, 12, &tight);
    MPI_Type_contiguous(3, sized, &several);
    MPI_Type_commit(&several);
    MPI_Type_commit(&tight);
    OK(MPI_Bcast(cells, 1, several, 0, world));
    if (wrong) MPI_Bcast(cells, 3, tight, 0, world); /* BUG type-mismatch */
    MPI_Type_free(&plain);
    MPI_Type_free(&sized);
    MPI_Type_free(&several);
    MPI_Type_free(&tight);
    free(block);
    free(x);
}

static int window_of_a_function(MPI_Win *w) {
    int gone[8] = {0};
    OK(MPI_Win_create(gone, sizeof gone, 4, MPI_INFO_NULL, world, w)); /* BUG buffer-overrun */
    return gone[0];
}

static int window_in_its_function(int depth) {
    int here[8] = {0};
    MPI_Win w;
    OK(MPI_Win_create(here, sizeof here, 4, MPI_INFO_NULL, world, &w));
    OK(MPI_Win_fence(0, w));
    OK(MPI_Win_fence(0, w));
    if (depth) window_in_its_function(depth - 1);
    OK(MPI_Win_free(&w));
    return here[0];
}

static void scopes(void) {
    MPI_Win w;
    window_in_its_function(2);
    if (!wrong) return;
    window_of_a_function(&w);
    OK(MPI_Barrier(world));
    OK(MPI_Win_free(&w));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    wrong = argc > 1 && !strcmp(argv[1], "wrong");
    const char *only = argc > 2 ? argv[2] : "";
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_rank(world, &me);
    MPI_Comm_size(world, &n);
#define CASE(name) \
    if (!*only || !strcmp(only, #name)) name(), MPI_Barrier(world)
    CASE(in_place);
    CASE(in_place_nonblocking);
    CASE(inactive_buffers);
    CASE(counts_that_matter);
    CASE(nobody);
    CASE(nothing);
    CASE(no_bytes);
    CASE(cart_edges);
    CASE(operations);
    CASE(no_op);
    CASE(exposures);
    CASE(accumulates);
    CASE(passive);
    CASE(inactive);
    CASE(cancelled);
    CASE(local_buffers);
    CASE(leaving_early);
    CASE(epochs_within);
    CASE(exposed_origin);
    CASE(memory_of_variables);
    CASE(scopes);
    MPI_Comm_free(&world);
    MPI_Finalize();
    return refused && !wrong;
}
