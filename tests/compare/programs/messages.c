/* Messages of many kinds; messages.c FAULT: 1, 2, 3 change one number on one rank before it is sent. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    int rank, n; double a[64], b[64], s[4], t[4]; long double ld[2];
    int odd = argc > 1 ? atoi(argv[1]) : -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank); MPI_Comm_size(MPI_COMM_WORLD, &n);
    for (int i = 0; i < 64; i++) a[i] = rank + i * 0.5, b[i] = 0;
    MPI_Datatype col; MPI_Type_vector(8, 1, 8, MPI_DOUBLE, &col); MPI_Type_commit(&col);
    int right = (rank + 1) % n, left = (rank + n - 1) % n;
    if (odd == 1 && rank == 1) a[8] += 1;
    MPI_Sendrecv(a, 1, col, right, 3, b, 8, MPI_DOUBLE, left, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Request q[2];
    if (odd == 2 && rank == 0) a[5] += 1;
    MPI_Irecv(b, 64, MPI_DOUBLE, left, 4, MPI_COMM_WORLD, &q[0]);
    MPI_Isend(a, 16, MPI_DOUBLE, right, 4, MPI_COMM_WORLD, &q[1]);
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 4; i++) s[i] = rank * 0.25 + i;
    if (odd == 3 && rank == n - 1) s[2] = 9;
    MPI_Allreduce(MPI_IN_PLACE, s, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce(s, t, 4, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Sendrecv_replace(s, 4, MPI_DOUBLE, right, 5, left, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ld[0] = rank; ld[1] = 2;
    MPI_Bcast(ld, 2, MPI_LONG_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Request p[2];
    MPI_Recv_init(b, 8, MPI_DOUBLE, left, 6, MPI_COMM_WORLD, &p[0]);
    MPI_Send_init(a, 1, col, right, 6, MPI_COMM_WORLD, &p[1]);
    for (int i = 0; i < 3; i++) { MPI_Startall(2, p); MPI_Waitall(2, p, MPI_STATUSES_IGNORE); a[0] += b[1]; }
    MPI_Request_free(&p[0]); MPI_Request_free(&p[1]);
    MPI_Request r; MPI_Iallreduce(MPI_IN_PLACE, s, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &r); MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Gather(s, 1, MPI_DOUBLE, b, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) for (int i = 1; i < n; i++) MPI_Recv(b, 64, MPI_DOUBLE, MPI_ANY_SOURCE, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else MPI_Send(a, 10 + rank, MPI_DOUBLE, 0, 8, MPI_COMM_WORLD);
    MPI_Type_free(&col);
    MPI_Finalize();
    printf("%d %g\n", rank, s[0]);
}
