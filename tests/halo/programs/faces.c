/* Jacobi's method on blocks of 1, 2 or 3 dimensions. `faces DIMENSIONS right|FAULT [periodic] [inferred]`
 *
 * What is wrong is told at the line of the star, or the box, that uses what it should not; what is done to a buffer that MPI
 * has at its own. Faces go as subarrays in 2 dimensions, else they are packed by loops. `inferred`: no line says how wide ghosts
 * are, and all faces go as subarrays.
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

enum { N = 6, STEPS = 6 };
static MPI_Comm cart;
static int D, rank, inferred, at[3], width[3], n[3], full[3];
static const char *fault;

static int is(const char *name) { return !strcmp(fault, name); }

static size_t cell(int i, int j, int k) { return ((size_t)i * full[1] + j) * full[2] + k; }

static double *field(const char *name) {
    double *x = calloc((size_t)full[0] * full[1] * full[2], sizeof *x);
    if (inferred) weft_part_inferred(x, double, name, D, WEFT_LIST(full[0], full[1], full[2]), cart);
    else
        weft_part(x, double, name, D, WEFT_LIST(full[0], full[1], full[2]), WEFT_LIST(width[0], width[1], width[2]),
                  cart);
    return x;
}

/* Copies a box of cells out of the array, or into it. */
static int box_of(double *x, const int *low, const int *size, double *packed, int out) {
    int m = 0;
    for (int i = low[0]; i < low[0] + size[0]; i++)
        for (int j = low[1]; j < low[1] + size[1]; j++)
            for (int k = low[2]; k < low[2] + size[2]; k++, m++) {
                if (out) packed[m] = x[cell(i, j, k)];
                else x[cell(i, j, k)] = packed[m];
            }
    return m;
}

static MPI_Datatype block(const int *low, const int *size) {
    MPI_Datatype type;
    MPI_Type_create_subarray(3, full, size, low, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

/* Layers of one axis to the next rank there, and from the one before. */
static void send_layers(double *x, int axis, int mine, int ghost, int layers, int corners, int to, int from) {
    int low[3], size[3];
    for (int k = 0; k < 3; k++) {
        low[k] = corners ? 0 : width[k];
        size[k] = corners ? full[k] : n[k];
    }
    size[axis] = layers;
    low[axis] = mine;
    int there[3] = {low[0], low[1], low[2]};
    there[axis] = ghost;
    if (D == 2 || inferred) {
        MPI_Datatype sent = block(low, size), got = block(there, size);
        MPI_Sendrecv(x, 1, sent, to, 7, x, 1, got, from, 7, cart, MPI_STATUS_IGNORE);
        MPI_Type_free(&sent);
        MPI_Type_free(&got);
        return;
    }
    double *out = malloc(sizeof *out * size[0] * size[1] * size[2]),
           *back = malloc(sizeof *back * size[0] * size[1] * size[2]);
    int m = box_of(x, low, size, out, 1);
    MPI_Sendrecv(out, m, MPI_DOUBLE, to, 7, back, m, MPI_DOUBLE, from, 7, cart, MPI_STATUS_IGNORE);
    if (from != MPI_PROC_NULL) box_of(x, there, size, back, 0);
    free(out);
    free(back);
}

/* One axis behind the other, so that corners come along. */
static void exchange(double *x, int layers, int first, int corners) {
    for (int axis = first; axis < D; axis++) {
        int low, high, w = width[axis], end = full[axis] - w;
        MPI_Cart_shift(cart, axis, 1, &low, &high);
        int swapped = is("swapped") && rank == 1 && axis == 0;
        send_layers(x, axis, end - layers, swapped ? end : w - layers, layers, corners, high, low);
        send_layers(x, axis, w, swapped ? w - layers : end, layers, corners, low, high);
    }
}

static void star(const double *u, double *v, int far) {
    if (D == 1) {
        for (int i = width[0]; i < full[0] - width[0]; i++) v[i] = 0.5 * (u[i - far] + u[i + far]); /* the star */
    } else if (D == 2) {
        for (int i = width[0]; i < full[0] - width[0]; i++)
            for (int j = width[1]; j < full[1] - width[1]; j++)
                v[cell(i, j, 0)] = 0.25 * (u[cell(i - far, j, 0)] + u[cell(i + far, j, 0)] + /* the star */
                                           u[cell(i, j - far, 0)] + u[cell(i, j + far, 0)]); /* the star */
    } else {
        for (int i = width[0]; i < full[0] - width[0]; i++)
            for (int j = width[1]; j < full[1] - width[1]; j++)
                for (int k = width[2]; k < full[2] - width[2]; k++)
                    v[cell(i, j, k)] = (u[cell(i - far, j, k)] + u[cell(i + far, j, k)] +     /* the star */
                                        u[cell(i, j - far, k)] + u[cell(i, j + far, k)] +     /* the star */
                                        u[cell(i, j, k - far)] + u[cell(i, j, k + far)]) /  /* the star */
                                       6; /* the star */
    }
}

static void box(const double *u, double *v) {
    for (int i = 1; i < full[0] - 1; i++)
        for (int j = width[1]; j < full[1] - width[1]; j++)
            for (int k = width[2]; k < full[2] - width[2]; k++) {
                double sum = 0;
                for (int a = -1; a <= 1; a++)
                    for (int b = -width[1]; b <= width[1]; b++)
                        for (int c = -width[2]; c <= width[2]; c++) sum += u[cell(i + a, j + b, k + c)]; /* the box */
                v[cell(i, j, k)] = sum / (D == 2 ? 9 : 27);
            }
}

/* The ghosts at the ends of the first axis, where there is no neighbour or, if `all`, also where there is one. */
static void ends(double *x, double value, int all) {
    int low, high;
    MPI_Cart_shift(cart, 0, 1, &low, &high);
    for (int j = 0; j < full[1]; j++)
        for (int k = 0; k < full[2]; k++) {
            if (all || low == MPI_PROC_NULL) x[cell(0, j, k)] = value;
            if (!all && high == MPI_PROC_NULL) x[cell(full[0] - 1, j, k)] = value;
        }
}

/* The faces of the first axis by calls that do not wait; `fault` says what is done before they are complete. */
static void pending(double *u, double *v) {
    int low, high, face = full[1] * full[2];
    static double read;
    MPI_Request all[4];
    MPI_Cart_shift(cart, 0, 1, &low, &high);
    double *first = malloc(sizeof *first * face);
    memcpy(first, u + face, sizeof *first * face);
    MPI_Irecv(u, face, MPI_DOUBLE, low, 1, cart, &all[0]);
    MPI_Irecv(u + cell(full[0] - 1, 0, 0), face, MPI_DOUBLE, high, 2, cart, &all[1]);
    MPI_Isend(u + cell(full[0] - 2, 0, 0), face, MPI_DOUBLE, high, 1, cart, &all[2]);
    MPI_Isend(first, face, MPI_DOUBLE, low, 2, cart, &all[3]);
    if (is("early") && low != MPI_PROC_NULL) read = u[face - 1]; /* the early read */
    if (is("changed") && low != MPI_PROC_NULL) first[0] = read;  /* the early store */
    MPI_Waitall(4, all, MPI_STATUSES_IGNORE);
    free(first);
    if (D > 1) exchange(u, 1, 1, 0);
    star(u, v, 1);
}

/* The largest change of all ranks' blocks, and where each begins. */
static double over_all(double mine) {
    double largest = mine;
    int count = 0, *begins;
    MPI_Comm_size(cart, &count);
    begins = calloc((size_t)count, sizeof *begins);
    begins[rank] = n[0];
    if (is("in place")) {
        MPI_Comm_set_errhandler(cart, MPI_ERRORS_RETURN);
        MPI_Allreduce(&largest, &largest, 1, MPI_DOUBLE, MPI_MAX, cart); /* one buffer for both */
    } else {
        MPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_DOUBLE, MPI_MAX, cart);
        MPI_Allgather(MPI_IN_PLACE, 1, MPI_INT, begins, 1, MPI_INT, cart);
    }
    free(begins);
    return largest;
}

static void step(double *u, double *v, int number) {
    if (is("corner") || is("box")) {
        exchange(u, 1, 0, is("box"));
        box(u, v);
    } else if (is("width") || is("wide")) {
        exchange(u, is("width") ? 1 : 2, 0, 1);
        star(u, v, 2);
    } else if (is("late")) {
        star(u, v, 1);
        exchange(u, 1, 0, 1);
    } else if (is("source")) {
        exchange(u, 1, 0, 1);
        for (int i = width[0]; i < full[0] - width[0]; i++)
            for (int j = width[1]; j < full[1] - width[1]; j++)
                for (int k = width[2]; k < full[2] - width[2]; k++) u[cell(i, j, k)] += 0.5;
        star(u, v, 1);
    } else if (is("written") || is("boundary")) {
        exchange(u, 1, 0, 1);
        ends(u, 9.0 + number, is("written"));
        star(u, v, 1);
    } else if (is("left out")) {
        exchange(u, 1, 1, 1);
        star(u, v, 1);
    } else if (is("seldom")) {
        if (number % 2 == 0) exchange(u, 1, 0, 1);
        star(u, v, 1);
    } else if (is("early") || is("changed") || is("pending")) {
        pending(u, v);
    } else {
        exchange(u, 1, 0, 1);
        star(u, v, 1);
    }
    over_all(v[cell(width[0], width[1], width[2])]);
}

int main(int argc, char **argv) {
    int ranks, dims[3] = {0}, periods[3] = {0};
    MPI_Init(&argc, &argv);
    D = atoi(argv[1]);
    fault = argv[2];
    for (int k = 3; k < argc; k++) inferred |= !strcmp(argv[k], "inferred");
    for (int k = 0; k < D; k++) periods[k] = argc > 3 + inferred;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Dims_create(ranks, D, dims);
    MPI_Cart_create(MPI_COMM_WORLD, D, dims, periods, 0, &cart);
    MPI_Comm_rank(cart, &rank);
    MPI_Cart_coords(cart, rank, D, at);
    for (int k = 0; k < 3; k++) {
        width[k] = k >= D ? 0 : is("width") || is("wide") ? 2 : 1;
        n[k] = k >= D ? 1 : N + (k + 1) * (at[k] % 2);
        full[k] = n[k] + 2 * width[k];
    }
    double *u = field("u"), *v = field("v");
    srand((unsigned)rank + 1);
    for (int i = width[0]; i < full[0] - width[0]; i++)
        for (int j = width[1]; j < full[1] - width[1]; j++)
            for (int k = width[2]; k < full[2] - width[2]; k++) u[cell(i, j, k)] = 1 + rand() / (double)RAND_MAX;
    exchange(u, width[0], 0, 1);
    for (int number = 0; number < STEPS; number++) {
        step(u, v, number);
        double *other = u;
        u = v;
        v = other;
    }
    free(u);
    free(v);
    MPI_Comm_free(&cart);
    MPI_Finalize();
    return 0;
}
