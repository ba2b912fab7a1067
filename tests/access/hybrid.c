/* Threads that touch what another thread's operation has: run as `hybrid right` or `hybrid wrong`. Two ranks, two threads. */
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

enum { N = 1000 };
static int rank, wrong;
static double in[2 * N], out[2 * N], sum;
static MPI_Win win;

static void set(double *a, double value) { *a = value; /* BUG buffer-reuse BUG rma-race */ }

static void stored_to_by_another_thread(void)
{
    MPI_Request r[2];
    MPI_Irecv(in, N, MPI_DOUBLE, 1 - rank, 1, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(out, N, MPI_DOUBLE, 1 - rank, 1, MPI_COMM_WORLD, &r[1]);
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1)
        set(out + (wrong ? N / 2 : N), 1);
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1)
        out[N / 2] = in[3];
}

static void read_by_the_threads_of_a_loop(void)
{
    MPI_Request r[2];
    double total = 0;
    MPI_Irecv(in, N, MPI_DOUBLE, 1 - rank, 2, MPI_COMM_WORLD, &r[0]);
    MPI_Isend(out, N, MPI_DOUBLE, 1 - rank, 2, MPI_COMM_WORLD, &r[1]);
    if (!wrong)
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
#pragma omp parallel for num_threads(2) reduction(+ : total)
    for (int i = 0; i < N; i++)
        total += in[i]; /* BUG buffer-reuse */
    MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    sum += total;
}

static void stored_to_by_a_task(void)
{
    MPI_Request r[2];
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        MPI_Irecv(in, N, MPI_DOUBLE, 1 - rank, 3, MPI_COMM_WORLD, &r[0]);
        MPI_Isend(out, N, MPI_DOUBLE, 1 - rank, 3, MPI_COMM_WORLD, &r[1]);
        if (!wrong)
            MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
#pragma omp task
        memset(out, 0, N * sizeof *out); /* BUG buffer-reuse */
#pragma omp taskwait
        if (wrong)
            MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
    }
}

static void read_while_another_thread_receives(void)
{
    volatile int seen = 0;
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 0) {
        if (rank == 0)
            MPI_Recv(in, N, MPI_DOUBLE, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 0) {
        double until = omp_get_wtime() + 0.3;
        while (omp_get_wtime() < until)
            seen += in[wrong ? 5 : N + 5] > 0; /* BUG buffer-reuse */
        MPI_Send(NULL, 0, MPI_INT, 1, 5, MPI_COMM_WORLD);
    } else {
        MPI_Recv(NULL, 0, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, N, MPI_DOUBLE, 0, 4, MPI_COMM_WORLD);
    }
    sum += in[5];
}

static void stored_to_a_window_by_another_thread(void)
{
    MPI_Win_create(in, sizeof in, sizeof *in, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    if (rank == 1)
        MPI_Put(out, 1, MPI_DOUBLE, 0, 7, 1, MPI_DOUBLE, win); /* BUG rma-race */
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1 && rank == 0)
        set(in + (wrong ? 7 : 8), 1);
    MPI_Win_fence(0, win);
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1)
        in[7] = 2;
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    wrong = argc > 1 && !strcmp(argv[1], "wrong");
    stored_to_by_another_thread();
    read_by_the_threads_of_a_loop();
    stored_to_by_a_task();
    if (provided == MPI_THREAD_MULTIPLE)
        read_while_another_thread_receives();
    MPI_Barrier(MPI_COMM_WORLD);
    stored_to_a_window_by_another_thread();
    if (sum == -1)
        puts("never");
    MPI_Finalize();
    return 0;
}
