// Each rank adds up squares, then all add theirs: the same program as squares.c, squares.f90 and squares.py.
#include <mpi.h>
#include <cstdio>

namespace {
int square(const int &k) {
    int result = k * k;
    return result;
}

int add(int n) {
    int total = 0;
    for (int k = 1; k <= n; k++) {
        total += square(k); /* here */
    }
    return total;
}
}  // namespace

int main(int argc, char **argv) {
    int me, mine, all;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Barrier(MPI_COMM_WORLD);
    mine = add(4 + me);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (me == 0) std::printf("all %d\n", all);
    MPI_Finalize();
    return 0;
}
