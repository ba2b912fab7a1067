/* Reductions and messages of MPI's pair types, from structures that fit (`right`) or from memory that is too short or of
 * another type (`long`, `six`, `doubles`). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct best { double value; int rank; };
struct half { float value; int rank; };
struct brief { short value; int rank; };
long total, sum, six[6], most[8];
double doubles[4];

static void reduce_right(int rank) {
    struct best mine = {rank, rank}, all, *many = malloc(3 * sizeof *many), *got = malloc(3 * sizeof *got);
    struct half half = {(float)rank, rank}, half_all;
    struct brief brief = {(short)rank, rank}, brief_all;
    int two[2] = {rank, rank}, two_all[2];
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    MPI_Allreduce(&half, &half_all, 1, MPI_FLOAT_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    MPI_Allreduce(&brief, &brief_all, 1, MPI_SHORT_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    MPI_Allreduce(two, two_all, 1, MPI_2INT, MPI_MAXLOC, MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++) many[i] = mine;
    MPI_Allreduce(many, got, 3, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    printf("%d %d %d %d\n", all.rank, half_all.rank, brief_all.rank, two_all[1] + got[0].rank);
    free(many), free(got);
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!strcmp(argv[1], "right")) reduce_right(rank);
    if (!strcmp(argv[1], "long")) {
        if (rank == 0) MPI_Send(&total, 1, MPI_LONG_INT, 1, 0, MPI_COMM_WORLD);
        else MPI_Recv(most, 1, MPI_LONG_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (!strcmp(argv[1], "six")) MPI_Reduce(six, most, 4, MPI_LONG_INT, MPI_MAXLOC, 0, MPI_COMM_WORLD);
    if (!strcmp(argv[1], "doubles")) MPI_Bcast(doubles, 1, MPI_DOUBLE_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
