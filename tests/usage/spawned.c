/* Every rank spawns worlds of 2 at the same time as the others, and sends them as many messages as its rank tells: no two
 * worlds are alike. With "left", rank 1's first world leaves one behind. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { WORLDS = 2, TAG = 10, LAST = 20 };

static void parent(char *program, int rank, int left) {
    char wanted[12] = {(char)('1' + rank), 0}, *arguments[] = {wanted, NULL};
    for (int world = 0; world < WORLDS; world++) {
        MPI_Comm children;
        int n = 1 + rank, back;
        MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
        for (int i = 0; i < n; i++) MPI_Send(&i, 1, MPI_INT, 0, TAG + rank, children);
        if (left && rank == 1 && world == 0) MPI_Send(&n, 1, MPI_INT, 1, LAST, children); /* BUG */
        for (int i = 0; i < n; i++) MPI_Recv(&back, 1, MPI_INT, 1, TAG + rank, children, MPI_STATUS_IGNORE);
        MPI_Comm_free(&children);
    }
}

static void child(MPI_Comm parents, int rank, int n) {
    for (int i = 0, x; i < n; i++)
        if (rank == 0) MPI_Recv(&x, 1, MPI_INT, 0, TAG + n - 1, parents, MPI_STATUS_IGNORE);
        else MPI_Send(&i, 1, MPI_INT, 0, TAG + n - 1, parents);
    MPI_Comm_free(&parents);
}

int main(int argc, char **argv) {
    MPI_Comm parents;
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parents);
    if (parents == MPI_COMM_NULL) parent(argv[0], rank, argc > 1 && strcmp(argv[1], "left") == 0);
    else child(parents, rank, argc > 1 ? atoi(argv[1]) : 1);
    MPI_Finalize();
    return 0;
}
