/* Variables and nameless values that share the bytes of a frame, as compilers lay them out when they optimise: what the
 * call of MPI is given is no part of the array whose name the debugging information has for that place. -DWRONG makes
 * the type of the inlined variable, and the count of the array, wrong. */
#include <mpi.h>
#include <stdio.h>

__attribute__((noinline)) static void measure(double *times)
{
    for (int k = 0; k < 5; k++)
        times[k] = k;
}

static inline double worst(int mine)
{
#ifdef WRONG
    double all[2] = { 0 };
#else
    int all[2] = { 0 };
#endif
    MPI_Allreduce(&mine, all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD); /* BUG type-mismatch */
    return all[0];
}

static inline void say(const int *what)
{
    MPI_Bcast((void *) what, 3, MPI_INT, 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    double times[5];
    MPI_Init(&argc, &argv);
    double failed = worst(argc > 5);
    say((int[3]){ argc, 2, 3 });
    measure(times);
#ifdef WRONG
    double *same = times + 2;
    MPI_Bcast(same, 4, MPI_DOUBLE, 0, MPI_COMM_WORLD); /* BUG buffer-overrun */
#else
    double *same = times + 1;
    MPI_Bcast(same, 4, MPI_DOUBLE, 0, MPI_COMM_WORLD);
#endif
    printf("%g %g\n", failed, times[2]);
    MPI_Finalize();
    return 0;
}
