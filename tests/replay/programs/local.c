/* Calls that wait for nobody, again and again from one place, and their kin that are not equal. Prints a hash of what
 * MPI_Wtime gave. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static double t[70100];
    int n = 0, rank, x;
    volatile int three = 3, pause = 300; /* loops that no compiler unrolls or splits into several places */
    MPI_Aint address;
    MPI_Status status[2];
    MPI_Datatype types[] = {MPI_INT, MPI_INT, MPI_DOUBLE};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 2; i++)
        MPI_Sendrecv(&rank, 1, MPI_INT, rank, i, &x, 1, MPI_INT, rank, i, MPI_COMM_WORLD, &status[i]);
    for (int i = 0; i < 70000; i++) {
        if (i == pause) usleep(30000);
        t[n++] = MPI_Wtime();
    }
    for (int i = 0; i < 3; i++) { /* two places in turn */
        t[n++] = MPI_Wtime();
        t[n++] = MPI_Wtime();
    }
    for (int i = 0; i < 3; i++) { /* with another call between */
        t[n++] = MPI_Wtime();
        MPI_Barrier(MPI_COMM_SELF);
    }
    for (int i = 0; i < three; i++) MPI_Type_size(types[i], &x);
    for (int i = 0; i < three + 1; i++) MPI_Get_count(&status[i / 2], MPI_INT, &x);
    for (int i = 0; i < three + 2; i++) MPI_Get_address(&t[i], &address);
    for (int i = 0; i < three + 3; i++) MPI_Initialized(&x);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < 2; i++) MPI_Cart_shift(MPI_COMM_WORLD, 0, 1, &x, &x); /* not of a grid: an error each time */
    uint64_t all = 0, bits;
    for (int i = 0; i < n; i++) {
        memcpy(&bits, &t[i], sizeof bits);
        all = (all ^ bits) * 0x9e3779b97f4a7c15u;
    }
    printf("rank %d: %llx\n", rank, (unsigned long long)all);
    MPI_Finalize();
    return 0;
}
