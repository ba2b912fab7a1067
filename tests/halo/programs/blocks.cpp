// A plate in blocks whose grid no communicator knows: ranks lie column by column. New values go to an array without ghosts.
//
//     blocks right|row|stale|undeclared [inferred]
#include <cstring>
#include <mpi.h>
#include <vector>
#include <weft.h>

enum { N = 6, M = 5, STEPS = 8, ROWS = 2 };

struct Plate {
    std::vector<double> old, made;
    int top, bottom, left, right;
    double &at(int i, int j) { return old[i * (M + 2) + j]; }
};

static void sweep(Plate &p) {
    for (int i = 1; i <= N; i++)
        for (int j = 1; j <= M; j++) {
            double around = p.at(i - 1, j) + p.at(i + 1, j) + p.at(i, j - 1) + p.at(i, j + 1); // the star
            p.made[(i - 1) * M + j - 1] = p.at(i, j) + 0.2 * (around - 4 * p.at(i, j));
        }
}

static void keep(Plate &p) {
    for (int i = 1; i <= N; i++)
        for (int j = 1; j <= M; j++) p.at(i, j) = p.made[(i - 1) * M + j - 1];
}

static void swap(Plate &p, MPI_Datatype column, int lowest) {
    MPI_Sendrecv(&p.at(1, 1), M, MPI_DOUBLE, p.top, 1, &p.at(N + 1, 1), M, MPI_DOUBLE, p.bottom, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(&p.at(lowest, 1), M, MPI_DOUBLE, p.bottom, 2, &p.at(0, 1), M, MPI_DOUBLE, p.top, 2, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(&p.at(1, 1), 1, column, p.left, 3, &p.at(1, M + 1), 1, column, p.right, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(&p.at(1, M), 1, column, p.right, 4, &p.at(1, 0), 1, column, p.left, 4, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *mode = argc > 1 ? argv[1] : "right";
    int row = rank % ROWS, col = rank / ROWS, cols = ranks / ROWS, none = MPI_PROC_NULL;
    Plate p = {std::vector<double>((N + 2) * (M + 2)), std::vector<double>(N * M), row ? rank - 1 : none,
               row < ROWS - 1 ? rank + 1 : none,       col ? rank - ROWS : none,   col < cols - 1 ? rank + ROWS : none};
    const bool inferred = argc > 2; // no line says how wide ghosts are
    weft_part_at(p.old.data(), double, "plate", 2, WEFT_LIST(N + 2, M + 2), inferred ? nullptr : WEFT_LIST(1, 1),
                 WEFT_LIST(row * N, col * M), WEFT_LIST(0, 0));
    if (strcmp(mode, "undeclared") != 0)
        weft_part_at(p.made.data(), double, "made", 2, WEFT_LIST(N, M), inferred ? nullptr : WEFT_LIST(0, 0),
                     WEFT_LIST(row * N, col * M), WEFT_LIST(0, 0));
    for (int i = 0; i < N + 2; i++)
        for (int j = 0; j < M + 2; j++) p.at(i, j) = (row * N + i) * 1.7 + (col * M + j) * (col * M + j) * 0.3;
    MPI_Datatype column;
    MPI_Type_vector(N, 1, M + 2, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    for (int step = 0; step < STEPS; step++) {
        if (strcmp(mode, "stale") != 0 || step % 2 == 0) swap(p, column, strcmp(mode, "row") ? N : 1);
        sweep(p);
        keep(p);
    }
    MPI_Type_free(&column);
    MPI_Finalize();
}
