/* Buffers of pending operations: run as `pending right` nothing is touched too early, as `pending wrong` each case does so
 * at the line that is marked. A second argument is the one case to run. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 100 };
static int rank, size, wrong;
static double in[4 * N], out[4 * N], sum;

static int peer(void) { return rank ^ 1; }

static void fill(double *a, int n)
{
    for (int i = 0; i < n; i++)
        a[i] = rank + i;
}

static double *same(double *a) { return a; }

static void isend_stored_to(void)
{
    MPI_Request r[2];
    MPI_Irecv(in, N, MPI_DOUBLE, peer(), 1, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(out, N, MPI_DOUBLE, peer(), 1, MPI_COMM_WORLD, &r[1]);
    sum += out[3]; /* a buffer that is being sent may be read */
    if (wrong)
        out[N - 1] = 7; /* BUG buffer-reuse */
    out[N] = 7;
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    out[0] = in[0];
}

static void issend_copied_over(void)
{
    MPI_Request r[2];
    MPI_Irecv(in, N, MPI_DOUBLE, peer(), 2, MPI_COMM_WORLD, &r[0]);
    MPI_Issend(out, N, MPI_DOUBLE, peer(), 2, MPI_COMM_WORLD, &r[1]);
    memcpy(out + N, out, N * sizeof *out);
    if (wrong)
        memcpy(out + N / 2, out + N, (size_t)size * sizeof *out); /* BUG buffer-reuse */
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

static void cleared(double *a)
{
    double *b = same(a);
    memset(b, 0, (size_t)size * sizeof *b); /* BUG buffer-reuse */
}

static void send_cleared_by_a_function(void)
{
    MPI_Request r[2];
    MPI_Irecv(in, N, MPI_DOUBLE, peer(), 3, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(out, N, MPI_DOUBLE, peer(), 3, MPI_COMM_WORLD, &r[1]);
    if (wrong)
        cleared(out);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

static void received_read(void)
{
    MPI_Request r[2];
    MPI_Irecv(in, N, MPI_DOUBLE, peer(), 4, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(out, N, MPI_DOUBLE, peer(), 4, MPI_COMM_WORLD, &r[1]);
    if (wrong)
        sum += in[N / 2]; /* BUG buffer-reuse */
    sum += in[N];
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    sum += in[N / 2];
}

static void received_stored_to(void)
{
    MPI_Request r[2];
    MPI_Irecv(in, N, MPI_DOUBLE, peer(), 5, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(out, N, MPI_DOUBLE, peer(), 5, MPI_COMM_WORLD, &r[1]);
    if (wrong)
        in[1] = 0; /* BUG buffer-reuse */
    in[N] = 1;
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    in[1] = 0;
}

static void one_of_two_waited_for(void)
{
    MPI_Request r[3];
    MPI_Irecv(in, N, MPI_DOUBLE, peer(), 6, MPI_COMM_WORLD, &r[0]);
    MPI_Irecv(in + N, N, MPI_DOUBLE, peer(), 7, MPI_COMM_WORLD, &r[1]);
    MPI_Send(out, N, MPI_DOUBLE, peer(), 6, MPI_COMM_WORLD);
    MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    sum += in[0];
    if (wrong)
        sum += in[N]; /* BUG buffer-reuse */
    MPI_Isend(out, N, MPI_DOUBLE, peer(), 7, MPI_COMM_WORLD, &r[2]);
    MPI_Waitall(2, &r[1], MPI_STATUSES_IGNORE);
    sum += in[N];
}

static void tested(void)
{
    MPI_Request r[2];
    int done = 0;
    MPI_Irecv(in, N, MPI_DOUBLE, peer(), 8, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(out, N, MPI_DOUBLE, peer(), 8, MPI_COMM_WORLD, &r[1]);
    while (!done) {
        MPI_Test(&r[0], &done, MPI_STATUS_IGNORE);
        sum += in[N];
    }
    sum += in[0];
    if (wrong)
        out[0] = sum; /* BUG buffer-reuse */
    MPI_Wait(&r[1], MPI_STATUS_IGNORE);
    out[0] = sum;
}

static void asked_for_its_status(void)
{
    MPI_Request r;
    int done = 0;
    MPI_Irecv(in, N, MPI_DOUBLE, peer(), 9, MPI_COMM_WORLD, &r);
    if (wrong)
        sum += in[2]; /* BUG buffer-reuse */
    MPI_Send(out, N, MPI_DOUBLE, peer(), 9, MPI_COMM_WORLD);
    while (!done)
        MPI_Request_get_status(r, &done, MPI_STATUS_IGNORE);
    sum += in[2];
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void persistent(void)
{
    MPI_Request r[2];
    MPI_Recv_init(in, N, MPI_DOUBLE, peer(), 10, MPI_COMM_WORLD, &r[0]);
    MPI_Send_init(out, N, MPI_DOUBLE, peer(), 10, MPI_COMM_WORLD, &r[1]);
    for (int i = 0; i < 3; i++) {
        fill(out, N);
        MPI_Startall(2, r);
        if (wrong && i == 2)
            out[i] = 3; /* BUG buffer-reuse */
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        sum += in[i];
    }
    out[0] = in[0];
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
}

static void columns(void)
{
    MPI_Datatype column;
    MPI_Request r[2];
    MPI_Type_vector(N / 10, 1, 10, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    MPI_Irecv(in + 3, 1, column, peer(), 11, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(out + 4, 1, column, peer(), 11, MPI_COMM_WORLD, &r[1]);
    for (int i = 0; i < N / 10; i++)
        sum += in[10 * i + 2] + in[10 * i + 4];
    for (int i = 0; i < N / 10; i++)
        out[10 * i + 3] = sum;
    if (wrong)
        sum += in[23]; /* BUG buffer-reuse */
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    MPI_Type_free(&column);
}

static void broadcast(void)
{
    MPI_Request r;
    MPI_Ibcast(in, N, MPI_DOUBLE, 0, MPI_COMM_WORLD, &r);
    if (rank == 0)
        sum += in[0];
    else if (wrong)
        sum += in[1]; /* BUG buffer-reuse */
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    sum += in[1];
}

static void reduced(void)
{
    MPI_Request r;
    MPI_Iallreduce(out, in, N, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &r);
    sum += out[0];
    if (wrong)
        sum += in[5]; /* BUG early-reduction-use */
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    sum += in[5];
}

static void reduced_in_place(void)
{
    MPI_Request r;
    MPI_Iallreduce(MPI_IN_PLACE, in, N, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &r);
    out[0] = 1;
    if (wrong)
        in[6] = 1; /* BUG buffer-reuse */
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void gathered(void)
{
    MPI_Request r;
    double *all = calloc((size_t)size * 10, sizeof *all);
    MPI_Igather(out, 10, MPI_DOUBLE, all, 10, MPI_DOUBLE, 0, MPI_COMM_WORLD, &r);
    if (rank)
        all[1] = 3; /* not the root's: nothing comes here */
    else if (wrong)
        sum += all[10 * size - 1]; /* BUG buffer-reuse */
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    sum += all[10 * size - 1];
    free(all);
}

static void each_its_own_part(void)
{
    MPI_Request r;
    int counts[64], at[64];
    for (int i = 0; i < size; i++) {
        counts[i] = 4;
        at[i] = 8 * i;
    }
    MPI_Ialltoallv(out, counts, at, MPI_DOUBLE, in, counts, at, MPI_DOUBLE, MPI_COMM_WORLD, &r);
    for (int i = 0; i < size; i++)
        sum += in[8 * i + 5]; /* between the parts */
    if (wrong)
        out[8 * (size - 1) + 3] = 1; /* BUG buffer-reuse */
    MPI_Wait(&r, MPI_STATUS_IGNORE);
}

static void matched_probe(void)
{
    MPI_Request r, s;
    MPI_Message message;
    MPI_Isend(out, N, MPI_DOUBLE, peer(), 12, MPI_COMM_WORLD, &s);
    MPI_Mprobe(peer(), 12, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    in[0] = 0;
    MPI_Imrecv(in, N, MPI_DOUBLE, &message, &r);
    if (wrong)
        sum += in[9]; /* BUG buffer-reuse */
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    sum += in[9];
    MPI_Wait(&s, MPI_STATUS_IGNORE);
}

static void to_nobody(void)
{
    MPI_Request r[2];
    MPI_Irecv(in, N, MPI_DOUBLE, MPI_PROC_NULL, 13, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(out, N, MPI_DOUBLE, MPI_PROC_NULL, 13, MPI_COMM_WORLD, &r[1]);
    in[0] = out[0] = 4;
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

static void put_before_flush(void)
{
    MPI_Win win;
    double *base;
    MPI_Win_allocate(8 * N, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, peer(), 0, win);
    MPI_Put(out, 10, MPI_DOUBLE, peer(), 0, 10, MPI_DOUBLE, win);
    sum += out[0];
    if (wrong)
        out[0] = 5; /* BUG buffer-reuse */
    MPI_Win_flush_local(peer(), win);
    out[0] = 5;
    MPI_Win_unlock(peer(), win);
    MPI_Win_free(&win);
}

static void got_before_fence(void)
{
    MPI_Win win;
    double *base;
    MPI_Win_allocate(8 * N, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_fence(0, win);
    MPI_Get(in, 10, MPI_DOUBLE, peer(), 0, 10, MPI_DOUBLE, win);
    if (wrong)
        sum += in[3]; /* BUG buffer-reuse */
    MPI_Win_fence(0, win);
    sum += in[3];
    MPI_Win_free(&win);
}

static void fetched_before_flush(void)
{
    MPI_Win win;
    long *base, got = 0, one = 1;
    MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_lock_all(0, win);
    MPI_Fetch_and_op(&one, &got, MPI_LONG, 0, 0, MPI_SUM, win);
    if (wrong)
        sum += got; /* BUG buffer-reuse */
    MPI_Win_flush(0, win);
    sum += got;
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static void requested_put(void)
{
    MPI_Win win;
    MPI_Request r;
    double *base;
    MPI_Win_allocate(8 * N, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_lock_all(0, win);
    MPI_Rput(out, 10, MPI_DOUBLE, peer(), 0, 10, MPI_DOUBLE, win, &r);
    if (wrong)
        out[2] = 8; /* BUG buffer-reuse */
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    out[2] = 8;
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

static void written_to_a_file(void)
{
    MPI_File f;
    MPI_Request r;
    MPI_File_open(MPI_COMM_WORLD, "pending.dat", MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                  &f);
    MPI_File_iwrite_at(f, (MPI_Offset)rank * N * 8, out, N, MPI_DOUBLE, &r);
    sum += out[1]; /* what is written to a file may be read */
    if (wrong)
        out[5] = 8; /* BUG buffer-reuse */
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    out[5] = 8;
    MPI_File_close(&f);
}

static void counts_of_a_collective(void)
{
    int counts[2] = {1, 1}, places[2] = {0, 1};
    MPI_Request r;
    MPI_Ialltoallv(out, counts, places, MPI_DOUBLE, in, counts, places, MPI_DOUBLE, MPI_COMM_WORLD, &r);
    sum += counts[0];
    if (wrong)
        places[1] = 2; /* BUG buffer-reuse */
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    places[1] = 2;
    sum += places[1];
}

static const struct { const char *name; void (*run)(void); } cases[] = {
#define CASE(name) {#name, name}
    CASE(isend_stored_to), CASE(issend_copied_over), CASE(send_cleared_by_a_function), CASE(received_read),
    CASE(received_stored_to), CASE(one_of_two_waited_for), CASE(tested), CASE(asked_for_its_status), CASE(persistent),
    CASE(columns), CASE(broadcast), CASE(reduced), CASE(reduced_in_place), CASE(gathered), CASE(each_its_own_part),
    CASE(matched_probe), CASE(to_nobody), CASE(put_before_flush), CASE(got_before_fence), CASE(fetched_before_flush),
    CASE(requested_put), CASE(written_to_a_file), CASE(counts_of_a_collective),
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    wrong = argc > 1 && !strcmp(argv[1], "wrong");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (argc > 2 && strcmp(argv[2], cases[i].name))
            continue;
        fill(out, N);
        cases[i].run();
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (sum == -1)
        puts("never");
    MPI_Finalize();
    return 0;
}
