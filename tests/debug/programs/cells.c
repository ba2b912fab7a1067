/* Two ranks exchange structs, a column of a matrix goes from 0 to 1, then both wait for tags that nobody sends. */
#include <mpi.h>
#include <stdio.h>

struct cell { int id; double x[2]; };

static void exchange(struct cell *mine, struct cell *other, int peer, int tag, MPI_Datatype type) {
    MPI_Send(mine, 2, type, peer, 5, MPI_COMM_WORLD);
    MPI_Recv(other, 2, type, peer, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int lengths[2] = {1, 2};
    MPI_Aint places[2] = {0, 8};
    MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE}, plain, type, column;
    MPI_Type_create_struct(2, lengths, places, types, &plain);
    MPI_Type_create_resized(plain, 0, sizeof(struct cell), &type);
    MPI_Type_commit(&type);
    MPI_Type_vector(3, 1, 4, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    struct cell mine[2] = {{rank * 10 + 1, {rank + 0.5, 2}}, {rank * 10 + 2, {3, 4}}}, other[2];
    double grid[12];
    for (int i = 0; i < 12; i++) grid[i] = i + 100 * rank;
    if (rank < 2) {
        exchange(mine, other, 1 - rank, 5, type);
        if (rank == 0) MPI_Send(grid + 1, 1, column, 1, 6, MPI_COMM_WORLD);
        else MPI_Recv(grid, 3, MPI_DOUBLE, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        exchange(mine, other, 1 - rank, 7 + rank, type);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
