/* Where the bytes of a datatype lie: runs of equal blocks at equal distances, found from how it was made. A buffer may be
 * looked at after the program has freed the type that it was sent with, so nothing of MPI is asked then. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "shim.h"

enum { RUNS_MOST = 1024, DEEPEST_TYPE = 16 };

struct runs {
    struct weft_block_run run[RUNS_MOST];
    int n;
    bool failed;
};

/* Reads how a datatype was made: the combiner and the numbers of its arguments. False if MPI does not say. */
WEFT_ASKS bool weft_read_type_envelope(MPI_Datatype type, struct weft_envelope *e) {
#ifdef HAVE_MPI_Type_get_envelope_c
    MPI_Count ints = 0, addresses = 0, larges = 0, types = 0;
    if (REAL(MPI_Type_get_envelope_c)(type, &ints, &addresses, &larges, &types, &e->combiner) != MPI_SUCCESS)
        return false;
#else
    int ints = 0, addresses = 0, larges = 0, types = 0;
    if (REAL(MPI_Type_get_envelope)(type, &ints, &addresses, &types, &e->combiner) != MPI_SUCCESS) return false;
#endif
    e->ints = (int64_t)ints;
    e->larges = (int64_t)larges;
    e->addresses = (int64_t)addresses;
    e->types = (int64_t)types;
    return true;
}

/* Reads the arguments that a datatype was made with, into arrays of the envelope's sizes. */
WEFT_ASKS bool weft_read_type_arguments(MPI_Datatype type, const struct weft_envelope *e, int *i, MPI_Aint *a,
                                        MPI_Count *l, MPI_Datatype *t) {
#ifdef HAVE_MPI_Type_get_envelope_c
    return REAL(MPI_Type_get_contents_c)(type, e->ints, e->addresses, e->larges, e->types, i, a, l, t) == MPI_SUCCESS;
#else
    (void)l;
    return REAL(MPI_Type_get_contents)(type, (int)e->ints, (int)e->addresses, (int)e->types, i, a, t) == MPI_SUCCESS;
#endif
}

/* Frees a datatype that weft_read_type_arguments returned, unless it is a predefined one. */
WEFT_ASKS void weft_free_inner_type(MPI_Datatype *type) {
    struct weft_envelope of;
    if (weft_read_type_envelope(*type, &of) && of.combiner != MPI_COMBINER_NAMED &&
        of.combiner != MPI_COMBINER_F90_REAL && of.combiner != MPI_COMBINER_F90_COMPLEX &&
        of.combiner != MPI_COMBINER_F90_INTEGER)
        REAL(MPI_Type_free)(type);
}

/* Adds a run of equal blocks to a list, joined with the last run if it continues that. */
static void add_run(struct runs *to, struct weft_block_run run) {
    struct weft_block_run *last = to->n ? &to->run[to->n - 1] : NULL;
    if (!run.bytes || !run.times || to->failed) return;
    if (run.times > 1 && run.stride == (int64_t)run.bytes) {
        run.bytes *= run.times;
        run.times = 1;
    }
    if (last && last->times == 1 && run.times == 1 && last->at + (int64_t)last->bytes == run.at)
        last->bytes += run.bytes;
    else if (to->n == RUNS_MOST) to->failed = true;
    else to->run[to->n++] = run;
}

/* `times` elements of some runs, `stride` apart, the first one at `at`. */
static void add_repeated(struct runs *to, const struct runs *of, int64_t at, int64_t times, int64_t stride) {
    to->failed |= of->failed;
    for (int i = 0; i < of->n && times > 0 && !to->failed; i++) {
        struct weft_block_run run = of->run[i];
        run.at += at;
        if (run.times == 1) {
            run.times = (uint64_t)times;
            run.stride = stride;
            add_run(to, run);
            continue;
        }
        for (int64_t k = 0; k < times && !to->failed; k++, run.at += stride) add_run(to, run);
    }
}

/* Returns a new empty list of runs, NULL without memory. */
static struct runs *no_runs(void) {
    struct runs *made = malloc(sizeof *made);
    if (made) {
        made->n = 0;
        made->failed = false;
    }
    return made;
}

/* The parts of a subarray: `v` has the sizes of the whole, of the part, and where it starts, a number for each dimension. */
static void add_subarray(struct runs *to, const struct runs *of, int64_t extent, int64_t dims, bool is_c,
                         const int64_t *v) {
    struct runs *one = no_runs(), *next = no_runs();
    if (!one || !next) to->failed = true;
    else {
        *one = *of;
        for (int64_t k = 0; k < dims; k++) {
            int64_t d = is_c ? dims - 1 - k : k;
            next->n = 0;
            next->failed = false;
            add_repeated(next, one, v[2 * dims + d] * extent, v[dims + d], extent);
            extent *= v[d];
            struct runs *swap = one;
            one = next;
            next = swap;
        }
        add_repeated(to, one, 0, 1, 0);
    }
    free(one);
    free(next);
}

/* Blocks of one type: `v` has what the function that made the type was given, integers before displacements. */
static void add_blocks(struct runs *to, const struct weft_envelope *e, const struct runs *of, int64_t extent,
                       const int64_t *v) {
    struct runs *block = NULL;
    int64_t n = v[0];
    switch (e->combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED: add_repeated(to, of, 0, 1, 0); break;
    case MPI_COMBINER_CONTIGUOUS: add_repeated(to, of, 0, n, extent); break;
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR:
        block = no_runs();
        if (!block) to->failed = true;
        else {
            add_repeated(block, of, 0, v[1], extent);
            add_repeated(to, block, 0, n, e->combiner == MPI_COMBINER_VECTOR ? v[2] * extent : v[2]);
        }
        break;
    case MPI_COMBINER_INDEXED:
        for (int64_t k = 0; k < n && !to->failed; k++) add_repeated(to, of, v[1 + n + k] * extent, v[1 + k], extent);
        break;
    case MPI_COMBINER_HINDEXED:
        for (int64_t k = 0; k < n && !to->failed; k++) add_repeated(to, of, v[1 + n + k], v[1 + k], extent);
        break;
    case MPI_COMBINER_INDEXED_BLOCK:
        for (int64_t k = 0; k < n && !to->failed; k++) add_repeated(to, of, v[2 + k] * extent, v[1], extent);
        break;
    case MPI_COMBINER_HINDEXED_BLOCK:
        for (int64_t k = 0; k < n && !to->failed; k++) add_repeated(to, of, v[2 + k], v[1], extent);
        break;
    case MPI_COMBINER_SUBARRAY:
        if (e->larges) add_subarray(to, of, extent, n, v[1] == MPI_ORDER_C, v + 2);
        else add_subarray(to, of, extent, n, v[1 + 3 * n] == MPI_ORDER_C, v + 1);
        break;
    default: to->failed = true;
    }
    free(block);
}

/* Adds the block of a predefined type; a type with gaps makes the list fail. */
static void add_named(struct runs *to, MPI_Datatype type) {
    MPI_Count size = 0, lb = 0, extent = 0;
    bool known = REAL(MPI_Type_size_x)(type, &size) == MPI_SUCCESS && size >= 0 &&
                 REAL(MPI_Type_get_true_extent_x)(type, &lb, &extent) == MPI_SUCCESS && extent == size;
    if (known) add_run(to, (struct weft_block_run){.at = (int64_t)lb, .bytes = (uint64_t)size, .times = 1});
    else to->failed = true;
}

static WEFT_ASKS void add_type(struct runs *to, MPI_Datatype type, int depth);

/* Those of a derived type, from its contents: `space` holds these. */
static void add_derived(struct runs *to, MPI_Datatype type, const struct weft_envelope *e, int depth, void *space) {
    int64_t numbers = e->ints + e->larges + e->addresses;
    int64_t *v = space;
    MPI_Aint *a = (MPI_Aint *)(v + numbers + 1);
    MPI_Count *l = (MPI_Count *)(a + e->addresses);
    MPI_Datatype *t = (MPI_Datatype *)(l + e->larges);
    int *i = (int *)(t + e->types);
    if (!weft_read_type_arguments(type, e, i, a, l, t)) {
        to->failed = true;
        return;
    }
    for (int64_t k = 0; k < e->ints; k++) v[k] = i[k];
    for (int64_t k = 0; k < e->larges; k++) v[e->ints + k] = (int64_t)l[k];
    for (int64_t k = 0; k < e->addresses; k++) v[e->ints + e->larges + k] = (int64_t)a[k];
    struct runs *of = no_runs();
    for (int64_t k = 0; k < e->types; k++) {
        MPI_Count lb = 0, extent = 0;
        if (!of || REAL(MPI_Type_get_extent_x)(t[k], &lb, &extent) != MPI_SUCCESS) to->failed = true;
        if (!to->failed) {
            of->n = 0;
            add_type(of, t[k], depth + 1);
            if (e->combiner == MPI_COMBINER_STRUCT) add_repeated(to, of, v[1 + v[0] + k], v[1 + k], (int64_t)extent);
            else add_blocks(to, e, of, (int64_t)extent, v);
        }
        weft_free_inner_type(&t[k]);
    }
    free(of);
}

/* Adds the runs of one element of a type. `depth`: how many types it is inside of. */
static WEFT_ASKS void add_type(struct runs *to, MPI_Datatype type, int depth) {
    struct weft_envelope e;
    to->failed |= depth > DEEPEST_TYPE || !weft_read_type_envelope(type, &e);
    if (to->failed) return;
    if (!e.types) {
        add_named(to, type);
        return;
    }
    size_t n = (size_t)(e.ints + e.larges + e.addresses);
    void *space = n > 1 << 20 ? NULL : malloc((3 * n + (size_t)e.types + 2) * sizeof(uint64_t));
    if (!space) to->failed = true;
    else {
        memset(space, 0, sizeof(uint64_t));
        add_derived(to, type, &e, depth, space);
    }
    free(space);
}

/* Returns the runs of blocks of `count` elements of a type, NULL if they are not known or too many. */
WEFT_ASKS struct weft_blocks *weft_find_type_blocks(MPI_Datatype type, int64_t count) {
    MPI_Count lb = 0, extent = 0;
    struct runs *found = no_runs();
    struct weft_blocks *made = NULL;
    if (!found) return NULL;
    if (REAL(MPI_Type_get_extent_x)(type, &lb, &extent) == MPI_SUCCESS && extent != MPI_UNDEFINED) {
        add_type(found, type, 0);
        size_t size = sizeof *made + (size_t)found->n * sizeof found->run[0];
        made = found->failed || !found->n ? NULL : malloc(size);
    }
    if (made) {
        *made = (struct weft_blocks){.count = count, .extent = (int64_t)extent, .runs = found->n};
        memcpy(made->run, found->run, (size_t)found->n * sizeof found->run[0]);
        for (int i = 0; i < made->runs; i++) {
            made->blocks += made->run[i].times;
            made->bytes += made->run[i].times * made->run[i].bytes;
        }
    }
    free(found);
    return made;
}

bool weft_has_no_gaps(const struct weft_blocks *b) {
    return b->blocks == 1 && !b->run[0].at && (b->count == 1 || b->extent == (int64_t)b->bytes);
}

/* Returns the block that holds byte number `byte` of a buffer's data, from that byte on. */
struct weft_block_run weft_find_block_of_byte(const struct weft_blocks *b, uint64_t byte) {
    struct weft_block_run run = b->run[0];
    for (int i = 0; i < b->runs && byte >= (run = b->run[i]).times * run.bytes; i++) byte -= run.times * run.bytes;
    run.at += (int64_t)(byte / run.bytes) * run.stride + (int64_t)(byte % run.bytes);
    run.bytes -= byte % run.bytes;
    run.times = 1;
    return run;
}
