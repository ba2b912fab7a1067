/* Ways to exchange and use ghost cells. `ways all`: each is right. `ways WAY wrong`: the mistake at the line `BUG WAY kind`.
 * A last word `inferred`: no line says how wide ghosts are. */
#include <math.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft.h>

enum { N = 8, M = 10, STEPS = 6, ROWS = N + 2 };
typedef double row[M];
static MPI_Comm line;
static int rank, low, high, inferred;
static double kept;

static row *rows_of(const char *name) {
    row *x = calloc(ROWS, sizeof *x);
    weft_part(x, double, name, 2, WEFT_LIST(ROWS, M), inferred ? NULL : WEFT_LIST(1, 0), line);
    return x;
}

static void fill(row *x) {
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < M; j++) x[i][j] = i == 0 || i == ROWS - 1 ? -1 : 1 + rand() / (double)RAND_MAX;
}

static void swap(row *x) {
    MPI_Sendrecv(x[N], M, MPI_DOUBLE, high, 1, x[0], M, MPI_DOUBLE, low, 1, line, MPI_STATUS_IGNORE);
    MPI_Sendrecv(x[1], M, MPI_DOUBLE, low, 2, x[N + 1], M, MPI_DOUBLE, high, 2, line, MPI_STATUS_IGNORE);
}

static inline double around(row *x, int i, int j) {
    return x[i - 1][j] + x[i + 1][j]; /* BUG inlined stale-halo-read remote-access */
}

/* The inner rows while the ghosts are on their way, then the two outer ones. */
static void overlap(int wrong) {
    row *u = rows_of("overlap u"), *v = rows_of("overlap v");
    fill(u);
    for (int s = 0; s < STEPS; s++) {
        MPI_Request all[4];
        MPI_Irecv(u[0], M, MPI_DOUBLE, low, 1, line, &all[0]);
        MPI_Irecv(u[N + 1], M, MPI_DOUBLE, high, 2, line, &all[1]);
        MPI_Isend(u[N], M, MPI_DOUBLE, high, 1, line, &all[2]);
        MPI_Isend(u[1], M, MPI_DOUBLE, low, 2, line, &all[3]);
        for (int i = 2; i < N; i++)
            for (int j = 0; j < M; j++) v[i][j] = (u[i - 1][j] + u[i + 1][j]) / 2;
        if (!wrong) MPI_Waitall(4, all, MPI_STATUSES_IGNORE);
        for (int i = 1; i <= N; i += N - 1)
            for (int j = 0; j < M; j++)
                v[i][j] = (u[i - 1][j] + u[i + 1][j]) / 2; /* BUG overlap buffer-reuse stale-halo-read */
        if (wrong) MPI_Waitall(4, all, MPI_STATUSES_IGNORE);
        row *w = u;
        u = v, v = w;
    }
    free(u);
    free(v);
}

/* In place, red cells and black ones, each after an exchange. */
static void colours(int wrong) {
    row *u = rows_of("colours u");
    fill(u);
    swap(u);
    for (int s = 0; s < 2 * STEPS; s++) {
        for (int i = 1; i <= N; i++)
            for (int j = 0; j < M; j++)
                if ((i + j + s) % 2) u[i][j] = 0.4 * (u[i - 1][j] + u[i + 1][j]); /* BUG colours stale-halo-read */
        if (!wrong || s % 2) swap(u);
        MPI_Barrier(line);
    }
    free(u);
}

/* Gauss and Seidel's method within each rank; neighbours' cells are those of the step before. */
static void seidel(int wrong) {
    row *u = rows_of("seidel u");
    fill(u);
    for (int s = 0; s < STEPS; s++) {
        if (!wrong || s < 3) swap(u);
        for (int i = 1; i <= N; i++)
            for (int j = 1; j < M - 1; j++) {
                double sum = u[i][j - 1] + u[i][j + 1];
                sum += u[i - 1][j] + u[i + 1][j]; /* BUG seidel stale-halo-read */
                u[i][j] = sum / 4;
            }
        MPI_Barrier(line);
    }
    free(u);
}

/* By a neighbourhood's collective, out of packed rows; one line sets a cell to nothing and others add to it. */
static void neighbours(int wrong) {
    row *u = rows_of("neighbours u"), *v = rows_of("neighbours v");
    fill(u);
    double out[2][M], in[2][M];
    for (int s = 0; s < STEPS; s++) {
        for (int j = 0; j < M; j++) {
            out[0][j] = u[1][j];
            out[1][j] = u[N][j];
        }
        MPI_Neighbor_alltoall(out, M, MPI_DOUBLE, in, M, MPI_DOUBLE, line);
        if (!wrong || s == 0) {
            if (low != MPI_PROC_NULL) memcpy(u[0], in[0], sizeof in[0]);
            for (int j = 0; j < M && high != MPI_PROC_NULL; j++) u[N + 1][j] = in[1][j];
        }
        for (int i = 1; i <= N; i++)
            for (int j = 0; j < M; j++) {
                v[i][j] = 0;
                v[i][j] += u[i - 1][j]; /* BUG neighbours stale-halo-read remote-access */
                v[i][j] += u[i + 1][j]; /* BUG neighbours stale-halo-read remote-access */
                v[i][j] /= 2;
            }
        row *w = u;
        u = v, v = w;
    }
    free(u);
    free(v);
}

/* By persistent requests; the new values are copied back, ghosts and all. */
static void persistent(int wrong) {
    row *u = rows_of("persistent u"), *v = rows_of("persistent v");
    MPI_Request all[4];
    fill(u);
    MPI_Recv_init(u[0], M, MPI_DOUBLE, low, 1, line, &all[0]);
    MPI_Recv_init(u[N + 1], M, MPI_DOUBLE, high, 2, line, &all[1]);
    MPI_Send_init(u[N], M, MPI_DOUBLE, high, 1, line, &all[2]);
    MPI_Send_init(u[1], M, MPI_DOUBLE, low, 2, line, &all[3]);
    for (int s = 0; s < STEPS; s++) {
        if (!wrong || s != 3) MPI_Startall(4, all);
        if (!wrong || s != 3) MPI_Waitall(4, all, MPI_STATUSES_IGNORE);
        memcpy(v, u, sizeof *u * ROWS);
        for (int i = 1; i <= N; i++)
            for (int j = 0; j < M; j++) v[i][j] = (u[i - 1][j] + u[i + 1][j]) / 2; /* BUG persistent stale-halo-read */
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < M; j++) u[i][j] = v[i][j];
        MPI_Barrier(line);
    }
    for (int k = 0; k < 4; k++) MPI_Request_free(&all[k]);
    free(u);
    free(v);
}

/* A function of the element, in single precision, in rows of one dimension. */
static void inlined(int wrong) {
    row *u = rows_of("inlined u"), *v = rows_of("inlined v");
    fill(u);
    for (int s = 0; s < STEPS; s++) {
        if (!wrong || s % 2 == 0) swap(u);
        for (int i = 1; i <= N; i++)
            for (int j = 0; j < M; j++) v[i][j] = around(u, i, j) / 2;
        MPI_Barrier(line);
        row *w = u;
        u = v, v = w;
    }
    free(u);
    free(v);
}

/* Two layers of ghosts, renewed in each second step: the step between computes the inner layer itself. */
static void every_second(int wrong) {
    enum { L = N + 4 };
    float *u = calloc(L, sizeof *u), *v = calloc(L, sizeof *v);
    weft_part(u, float, "every-second u", 1, WEFT_LIST(L), inferred ? NULL : WEFT_LIST(2), line);
    weft_part(v, float, "every-second v", 1, WEFT_LIST(L), inferred ? NULL : WEFT_LIST(2), line);
    for (int i = 2; i < L - 2; i++) u[i] = 1 + rand() / (float)RAND_MAX;
    for (int s = 0; s < STEPS; s++) {
        int far = s % 2 == 0;
        if (s % (wrong ? 4 : 2) == 0) {
            MPI_Sendrecv(u + N, 2, MPI_FLOAT, high, 1, u, 2, MPI_FLOAT, low, 1, line, MPI_STATUS_IGNORE);
            MPI_Sendrecv(u + 2, 2, MPI_FLOAT, low, 2, u + N + 2, 2, MPI_FLOAT, high, 2, line, MPI_STATUS_IGNORE);
        }
        int first = low == MPI_PROC_NULL ? 2 : 2 - far, end = high == MPI_PROC_NULL ? N + 2 : N + 2 + far;
        for (int i = first; i < end; i++) v[i] = (u[i - 1] + u[i + 1]) / 2; /* BUG every-second stale-halo-read */
        float *w = u;
        u = v, v = w;
    }
    free(u);
    free(v);
}

/* Several sweeps between two exchanges, meant so and said. */
static void lagging(int wrong) {
    double *u = calloc(ROWS, sizeof *u);
    weft_part_lagging(u, double, "lagging u", 1, WEFT_LIST(ROWS), inferred ? NULL : WEFT_LIST(1), line, wrong ? 0 : 2);
    for (int i = 1; i <= N; i++) u[i] = 1 + rand() / (double)RAND_MAX;
    for (int s = 0; s < 3 * STEPS; s++) {
        if (s % 3 == 0) {
            MPI_Sendrecv(u + N, 1, MPI_DOUBLE, high, 1, u, 1, MPI_DOUBLE, low, 1, line, MPI_STATUS_IGNORE);
            MPI_Sendrecv(u + 1, 1, MPI_DOUBLE, low, 2, u + N + 1, 1, MPI_DOUBLE, high, 2, line, MPI_STATUS_IGNORE);
        }
        for (int i = 1; i <= N; i++) u[i] = 0.3 * u[i] + 0.35 * (u[i - 1] + u[i + 1]); /* BUG lagging stale-halo-read */
        MPI_Allreduce(MPI_IN_PLACE, &kept, 1, MPI_DOUBLE, MPI_MAX, line);
    }
    weft_part_end(u);
    free(u);
}

/* Ghosts that are old are read, and go nowhere: sums and norms over all, a printed one, copies, what is sent. */
static void looked_at(int wrong) {
    row *u = rows_of("looked u"), *v = rows_of("looked v"), sent;
    fill(u);
    swap(u);
    for (int s = 0; s < STEPS; s++) {
        double sum = 0;
        char text[64];
        for (int i = 1; i <= N; i++)
            for (int j = 0; j < M; j++) u[i][j] *= 1.5;
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < M; j++) sum += fabs(u[i][j]);
        snprintf(text, sizeof text, "%g", u[0][M - 1]);
        memcpy(sent, u[0], sizeof sent);
        memcpy(v, u, sizeof *u * ROWS);
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < M; j++) v[i][j] = 2 * u[i][j];
        if (!wrong) swap(u);
        for (int i = 1; i <= N; i++)
            for (int j = 0; j < M; j++) v[i][j] = (u[i - 1][j] + u[i + 1][j]) / 2; /* BUG looked stale-halo-read */
        kept += sum + sent[0] + text[0];
        MPI_Barrier(line);
    }
    free(u);
    free(v);
}

/* The same memory again and again, as arrays of other names and as something else. */
static void again(int wrong) {
    (void)wrong;
    for (int s = 0; s < STEPS; s++) {
        row *u = calloc(2 * ROWS, sizeof *u), *v = u + ROWS;
        weft_part(u, double, s % 2 ? "again odd" : "again even", 2, WEFT_LIST(ROWS, M),
                  inferred ? NULL : WEFT_LIST(1, 0), line);
        weft_part(v, double, "again v", 2, WEFT_LIST(ROWS, M), inferred ? NULL : WEFT_LIST(1, 0), line);
        fill(u);
        swap(u);
        for (int i = 1; i <= N; i++)
            for (int j = 0; j < M; j++) v[i][j] = (u[i - 1][j] + u[i + 1][j]) / 2;
        free(u);
        enum { CELLS = 2 * ROWS * M };
        double *other = malloc(sizeof *other * CELLS);
        for (int i = 0; i < CELLS; i++) other[i] = rank + i;
        for (int i = 1; i < CELLS; i++) other[i] += other[i - 1];
        kept += other[CELLS - 1];
        free(other);
    }
}

/* A child of the process has what was not written yet, and must not write it. */
static void children(int wrong) {
    (void)wrong;
    row *u = rows_of("children u");
    fill(u);
    for (int s = 0; s < STEPS; s++) {
        swap(u);
        for (int i = 1; i <= N; i++)
            for (int j = 0; j < M; j++) u[i][j] = (u[i - 1][j] + u[i + 1][j]) / 2;
        pid_t child = fork();
        if (!child) {
            u[1][1] = u[0][1];
            fflush(NULL);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    free(u);
}

static void *sweep(void *of) {
    row *u = of;
    for (int i = 1; i <= N; i++)
        for (int j = 0; j < M; j++) u[i][j] = (u[i - 1][j] + u[i + 1][j]) / 2;
    return NULL;
}

/* What a second thread does is not seen. */
static void threads(int wrong) {
    row *u = rows_of("threads u");
    fill(u);
    for (int s = 0; s < STEPS; s++) {
        pthread_t other;
        if (!wrong || s == 0) swap(u);
        pthread_create(&other, NULL, sweep, u);
        pthread_join(other, NULL);
        sweep(u);
    }
    free(u);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(int wrong);
    } ways[] = {{"overlap", overlap},
                {"colours", colours},
                {"seidel", seidel},
                {"neighbours", neighbours},
                {"persistent", persistent},
                {"inlined", inlined},
                {"every-second", every_second},
                {"lagging", lagging},
                {"looked", looked_at},
                {"again", again},
                {"children", children}};
    int ranks, period = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &period, 0, &line);
    MPI_Comm_rank(line, &rank);
    MPI_Cart_shift(line, 0, 1, &low, &high);
    inferred = !strcmp(argv[argc - 1], "inferred");
    argc -= inferred;
    srand((unsigned)rank + 1);
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++)
        if (!strcmp(argv[1], "all") || !strcmp(argv[1], ways[k].name)) ways[k].run(argc > 2);
    if (!strcmp(argv[1], "threads")) threads(argc > 2);
    MPI_Comm_free(&line);
    MPI_Finalize();
    return 0;
}
