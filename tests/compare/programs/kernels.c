/* Four kernels on any number of ranks, each with faults that are asked for by name: kernels KERNEL [FAULT]. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

enum { N = 24, BODIES = 12, STEPS = 4 };
static int rank, size;
static const char *fault = "";

/* Whether a fault is planted here: in step 2, on rank 1 (0 where there is no other), or on all ranks. */
static int everywhere(const char *name, int step) { return step == 2 && !strcmp(fault, name); }
static int bad(const char *name, int step) { return everywhere(name, step) && rank == (size > 1 ? 1 : 0); }
static int first_of(int n, int r) { return r * (n / size) + (r < n % size ? r : n % size); }
static int part_of(int n, int r) { return first_of(n, r + 1) - first_of(n, r); }

static void heat(void) {
    int n = part_of(N, rank), first = first_of(N, rank);
    double(*a)[N] = calloc((size_t)n + 2, sizeof *a), (*b)[N] = calloc((size_t)n + 2, sizeof *b);
    for (int i = 1; i <= n; i++)
        for (int j = 0; j < N; j++) a[i][j] = sin(first + i - 1) + cos(j);
    int up = rank ? rank - 1 : MPI_PROC_NULL, down = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    for (int step = 0; step < STEPS; step++) {
        weft_loop("sweep", step);
        if (!everywhere("no-exchange", step)) {
            int width = everywhere("width", step) ? N - 2 : N;
            MPI_Sendrecv(a[1], width, MPI_DOUBLE, up, 0, a[n + 1], width, MPI_DOUBLE, down, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Sendrecv(bad("own-edge", step) ? a[0] : a[n], N, MPI_DOUBLE, down, 1, a[0], N, MPI_DOUBLE, up, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        memcpy(b, a, ((size_t)n + 2) * sizeof *a);
        double most = 0, all;
        for (int i = bad("bound", step) ? 2 : 1; i <= n; i++)
            for (int j = 1; j < N - 1; j++) {
                if (first + i == 1 || first + i == N) continue;
                b[i][j] = (a[i - 1][j] + a[i + 1][j] + a[i][j - 1] + a[i][j + 1]) / 4;
                if (bad("float32", step)) b[i][j] = (float)b[i][j];
                most = fmax(most, fabs(b[i][j] - a[i][j]));
            }
        void *other = a;
        a = b, b = other;
        weft_probe_part("A", a[1], double, "A", 2, WEFT_LIST(n, N), WEFT_LIST(first, 0), WEFT_LIST(n + 2, N));
        MPI_Allreduce(&most, &all, 1, MPI_DOUBLE, everywhere("operation", step) ? MPI_MIN : MPI_MAX, MPI_COMM_WORLD);
        weft_probe("change", &all, double);
    }
    weft_end("sweep");
}

static void matmul(void) {
    static double a[N][N], panel[N / 4][N];
    int n = part_of(N, rank), first = first_of(N, rank);
    double(*c)[N] = calloc((size_t)n, sizeof *c);
    for (int i = 0; i < N * N; i++) a[i / N][i % N] = i % 7;
    for (int k = 0; k < 4; k++) {
        weft_loop("panel", k);
        int root = k % size;
        memset(panel, 0, sizeof panel);
        if (rank == root) memcpy(panel, a[k * N / 4], sizeof panel);
        MPI_Bcast(panel, N / 4 * N, MPI_DOUBLE, everywhere("root", k) ? (root + 1) % size : root, MPI_COMM_WORLD);
        double sum; /* begun anew for each element */
        for (int i = 0; i < n; i++)
            for (int j = 0; j < N; j++) {
                if (!bad("private", k) || j == 0) sum = 0;
                for (int l = 0; l < N / 4; l++) sum += a[first + i][k * N / 4 + l] * panel[l][j];
                c[i][j] = (bad("stale-sum", k) ? 0 : c[i][j]) + sum;
            }
        weft_probe_part("C", c, double, "C", 2, WEFT_LIST(n, N), WEFT_LIST(first, 0), WEFT_LIST(n, N));
    }
    weft_end("panel");
}

static void nbody(void) {
    int n = part_of(BODIES, rank), first = first_of(BODIES, rank);
    double x[BODIES], speed[BODIES] = {0}, force[BODIES], travelling[BODIES], got[BODIES];
    for (int i = 0; i < n; i++) x[i] = cos((first + i) * 1.7);
    for (int step = 0; step < STEPS; step++) {
        weft_loop("step", step);
        memset(force, 0, sizeof force);
        memcpy(travelling, x, sizeof x);
        for (int hop = 0, owner = rank; hop < size; hop++) {
            for (int i = 0; i < n && !(everywhere("hop", step) && size > 1 && hop == size - 1); i++)
                for (int j = 0; j < part_of(BODIES, owner); j++) {
                    double d = travelling[j] - x[i];
                    if (bad("sign", step)) d = -d;
                    if (first_of(BODIES, owner) + j != first + i) force[i] += d / (pow(fabs(d), 3) + 0.1);
                }
            owner = (owner + size - 1) % size;
            MPI_Sendrecv(bad("stale", step) ? x : travelling, BODIES, MPI_DOUBLE, (rank + 1) % size, 0, got, BODIES, MPI_DOUBLE,
                         (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            memcpy(travelling, got, sizeof got);
        }
        for (int i = 0; i < n; i++) speed[i] += force[i] * 0.01, x[i] += speed[i] * 0.01;
        weft_probe_part("force", force, double, "F", 1, WEFT_LIST(n), WEFT_LIST(first), WEFT_LIST(n));
    }
    weft_end("step");
}

static int rising(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void sort(void) {
    int n = part_of(N, rank), first = first_of(N, rank), mine[N], both[2 * N];
    for (int i = 0; i < n; i++) mine[i] = (first + i) * 17 % N;
    qsort(mine, (size_t)n, sizeof *mine, rising);
    for (int phase = 0; phase < size; phase++) {
        int partner = (rank + phase) % 2 ? rank - 1 : rank + 1;
        if (partner < 0 || partner >= size) continue;
        int m = part_of(N, partner);
        memcpy(both, mine, sizeof mine);
        MPI_Sendrecv(mine, n, MPI_INT, partner, 0, both + n, m, MPI_INT, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        qsort(both, (size_t)(n + m), sizeof *both, rising);
        int low = partner > rank;
        if (!strcmp(fault, "side") && rank + partner == 1 && phase >= size - 2) low = !low;
        memcpy(mine, low ? both : both + m, (size_t)n * sizeof *mine);
    }
    if (!strcmp(fault, "lost") && rank == size - 1) mine[1] = mine[0];
    weft_probe_part("sorted", mine, int, "S", 1, WEFT_LIST(n), WEFT_LIST(first), WEFT_LIST(n));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 2) fault = argv[2];
    if (!strcmp(argv[1], "heat")) heat();
    if (!strcmp(argv[1], "matmul")) matmul();
    if (!strcmp(argv[1], "nbody")) nbody();
    if (!strcmp(argv[1], "sort")) sort();
    MPI_Finalize();
    return 0;
}
