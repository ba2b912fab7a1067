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

/* Read how a datatype was made: its combiner, and how many arguments of each sort its maker got. Return false if MPI
 * does not say. */
WEFT_ASKS bool weft_read_type_envelope(MPI_Datatype type, struct weft_envelope *envelope) {
#ifdef HAVE_MPI_Type_get_envelope_c
    MPI_Count ints = 0, addresses = 0, larges = 0, types = 0;
    if (REAL(MPI_Type_get_envelope_c)(type, &ints, &addresses, &larges, &types, &envelope->combiner) != MPI_SUCCESS)
        return false;
#else
    int ints = 0, addresses = 0, larges = 0, types = 0;
    if (REAL(MPI_Type_get_envelope)(type, &ints, &addresses, &types, &envelope->combiner) != MPI_SUCCESS) return false;
#endif
    envelope->ints = (int64_t)ints;
    envelope->larges = (int64_t)larges;
    envelope->addresses = (int64_t)addresses;
    envelope->types = (int64_t)types;
    return true;
}

/* Read the arguments that a datatype was made with, into arrays of the sizes that its envelope tells. Return false if
 * MPI does not say. */
WEFT_ASKS bool weft_read_type_arguments(MPI_Datatype type, const struct weft_envelope *envelope, int *ints,
                                        MPI_Aint *addresses, MPI_Count *counts, MPI_Datatype *types) {
#ifdef HAVE_MPI_Type_get_envelope_c
    return REAL(MPI_Type_get_contents_c)(type, envelope->ints, envelope->addresses, envelope->larges, envelope->types,
                                         ints, addresses, counts, types) == MPI_SUCCESS;
#else
    (void)counts;
    return REAL(MPI_Type_get_contents)(type, (int)envelope->ints, (int)envelope->addresses, (int)envelope->types, ints,
                                       addresses, types) == MPI_SUCCESS;
#endif
}

/* Free a datatype that weft_read_type_arguments returned, unless it is predefined (MPI-4.1, 5.1.13). */
WEFT_ASKS void weft_free_inner_type(MPI_Datatype *type) {
    struct weft_envelope envelope;
    if (weft_read_type_envelope(*type, &envelope) && envelope.combiner != MPI_COMBINER_NAMED &&
        envelope.combiner != MPI_COMBINER_F90_REAL && envelope.combiner != MPI_COMBINER_F90_COMPLEX &&
        envelope.combiner != MPI_COMBINER_F90_INTEGER)
        REAL(MPI_Type_free)(type);
}

/* Add a run of equal blocks at equal distances to a list; it is joined with the last run if it continues that one. A
 * full list is marked as failed. */
static void add_block_run(struct runs *list, struct weft_block_run run) {
    struct weft_block_run *last = list->n ? &list->run[list->n - 1] : NULL;
    if (!run.bytes || !run.times || list->failed) return;
    if (run.times > 1 && run.stride == (int64_t)run.bytes) {
        run.bytes *= run.times;
        run.times = 1;
    }
    if (last && last->times == 1 && run.times == 1 && last->at + (int64_t)last->bytes == run.at)
        last->bytes += run.bytes;
    else if (list->n == RUNS_MOST) list->failed = true;
    else list->run[list->n++] = run;
}

/* Add `times` copies of a list of runs to another list: the first copy lies at byte `offset`, the next ones `stride`
 * bytes apart. */
static void add_repeated_runs(struct runs *list, const struct runs *copied, int64_t offset, int64_t times,
                              int64_t stride) {
    list->failed |= copied->failed;
    for (int i = 0; i < copied->n && times > 0 && !list->failed; i++) {
        struct weft_block_run run = copied->run[i];
        run.at += offset;
        if (run.times == 1) {
            run.times = (uint64_t)times;
            run.stride = stride;
            add_block_run(list, run);
            continue;
        }
        for (int64_t k = 0; k < times && !list->failed; k++, run.at += stride) add_block_run(list, run);
    }
}

/* Return a new empty list of runs, to be freed by the caller; NULL without memory. */
static struct runs *make_run_list(void) {
    struct runs *made = malloc(sizeof *made);
    if (made) {
        made->n = 0;
        made->failed = false;
    }
    return made;
}

/* Add the runs of a subarray type (MPI_Type_create_subarray) to a list. `sizes`: for each dimension the size of the
 * whole array, then the sizes of the part, then its starts. `extent`: of the element type, whose runs are `element`. */
static void add_subarray(struct runs *list, const struct runs *element, int64_t extent, int64_t dims, bool is_c,
                         const int64_t *sizes) {
    struct runs *one = make_run_list(), *next = make_run_list();
    if (!one || !next) list->failed = true;
    else {
        *one = *element;
        for (int64_t k = 0; k < dims; k++) {
            int64_t d = is_c ? dims - 1 - k : k;
            next->n = 0;
            next->failed = false;
            add_repeated_runs(next, one, sizes[2 * dims + d] * extent, sizes[dims + d], extent);
            extent *= sizes[d];
            struct runs *swap = one;
            one = next;
            next = swap;
        }
        add_repeated_runs(list, one, 0, 1, 0);
    }
    free(one);
    free(next);
}

/* Add the runs of a type that is made of one other type. `inner`: the runs of that type, and its extent in bytes;
 * `arguments`: what the maker of the type got, integers before displacements. Other combiners mark the list as
 * failed. */
static void add_blocks(struct runs *list, const struct weft_envelope *envelope, const struct runs *inner,
                       int64_t extent, const int64_t *arguments) {
    struct runs *block = NULL;
    int64_t count = arguments[0];
    switch (envelope->combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED: add_repeated_runs(list, inner, 0, 1, 0); break;
    case MPI_COMBINER_CONTIGUOUS: add_repeated_runs(list, inner, 0, count, extent); break;
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR:
        block = make_run_list();
        if (!block) list->failed = true;
        else {
            add_repeated_runs(block, inner, 0, arguments[1], extent);
            add_repeated_runs(list, block, 0, count,
                              envelope->combiner == MPI_COMBINER_VECTOR ? arguments[2] * extent : arguments[2]);
        }
        break;
    case MPI_COMBINER_INDEXED:
        for (int64_t k = 0; k < count && !list->failed; k++)
            add_repeated_runs(list, inner, arguments[1 + count + k] * extent, arguments[1 + k], extent);
        break;
    case MPI_COMBINER_HINDEXED:
        for (int64_t k = 0; k < count && !list->failed; k++)
            add_repeated_runs(list, inner, arguments[1 + count + k], arguments[1 + k], extent);
        break;
    case MPI_COMBINER_INDEXED_BLOCK:
        for (int64_t k = 0; k < count && !list->failed; k++)
            add_repeated_runs(list, inner, arguments[2 + k] * extent, arguments[1], extent);
        break;
    case MPI_COMBINER_HINDEXED_BLOCK:
        for (int64_t k = 0; k < count && !list->failed; k++)
            add_repeated_runs(list, inner, arguments[2 + k], arguments[1], extent);
        break;
    case MPI_COMBINER_SUBARRAY:
        if (envelope->larges) add_subarray(list, inner, extent, count, arguments[1] == MPI_ORDER_C, arguments + 2);
        else add_subarray(list, inner, extent, count, arguments[1 + 3 * count] == MPI_ORDER_C, arguments + 1);
        break;
    default: list->failed = true;
    }
    free(block);
}

/* Add the one block of a predefined type; a type with gaps marks the list as failed. */
static void add_predefined_type(struct runs *list, MPI_Datatype type) {
    MPI_Count size = 0, lb = 0, extent = 0;
    bool known = REAL(MPI_Type_size_x)(type, &size) == MPI_SUCCESS && size >= 0 &&
                 REAL(MPI_Type_get_true_extent_x)(type, &lb, &extent) == MPI_SUCCESS && extent == size;
    if (known) add_block_run(list, (struct weft_block_run){.at = (int64_t)lb, .bytes = (uint64_t)size, .times = 1});
    else list->failed = true;
}

static WEFT_ASKS void add_type_runs(struct runs *list, MPI_Datatype type, int depth);

/* Add the runs of one element of a derived type, found from the arguments that it was made with. `space`: memory for
 * these arguments. `depth`: in how many types it is nested. */
static void add_derived_type(struct runs *list, MPI_Datatype type, const struct weft_envelope *envelope, int depth,
                             void *space) {
    int64_t numbers = envelope->ints + envelope->larges + envelope->addresses;
    int64_t *arguments = space;
    MPI_Aint *addresses = (MPI_Aint *)(arguments + numbers + 1);
    MPI_Count *counts = (MPI_Count *)(addresses + envelope->addresses);
    MPI_Datatype *inner_types = (MPI_Datatype *)(counts + envelope->larges);
    int *ints = (int *)(inner_types + envelope->types);
    if (!weft_read_type_arguments(type, envelope, ints, addresses, counts, inner_types)) {
        list->failed = true;
        return;
    }
    for (int64_t k = 0; k < envelope->ints; k++) arguments[k] = ints[k];
    for (int64_t k = 0; k < envelope->larges; k++) arguments[envelope->ints + k] = (int64_t)counts[k];
    for (int64_t k = 0; k < envelope->addresses; k++)
        arguments[envelope->ints + envelope->larges + k] = (int64_t)addresses[k];
    struct runs *inner = make_run_list();
    for (int64_t k = 0; k < envelope->types; k++) {
        MPI_Count lb = 0, extent = 0;
        if (!inner || REAL(MPI_Type_get_extent_x)(inner_types[k], &lb, &extent) != MPI_SUCCESS) list->failed = true;
        if (!list->failed) {
            inner->n = 0;
            add_type_runs(inner, inner_types[k], depth + 1);
            if (envelope->combiner == MPI_COMBINER_STRUCT)
                add_repeated_runs(list, inner, arguments[1 + arguments[0] + k], arguments[1 + k], (int64_t)extent);
            else add_blocks(list, envelope, inner, (int64_t)extent, arguments);
        }
        weft_free_inner_type(&inner_types[k]);
    }
    free(inner);
}

/* Add the runs of one element of a datatype to a list. `depth`: in how many types it is nested. */
static WEFT_ASKS void add_type_runs(struct runs *list, MPI_Datatype type, int depth) {
    struct weft_envelope envelope;
    list->failed |= depth > DEEPEST_TYPE || !weft_read_type_envelope(type, &envelope);
    if (list->failed) return;
    if (!envelope.types) {
        add_predefined_type(list, type);
        return;
    }
    size_t argument_count = (size_t)(envelope.ints + envelope.larges + envelope.addresses);
    void *space =
        argument_count > 1 << 20 ? NULL : malloc((3 * argument_count + (size_t)envelope.types + 2) * sizeof(uint64_t));
    if (!space) list->failed = true;
    else {
        memset(space, 0, sizeof(uint64_t));
        add_derived_type(list, type, &envelope, depth, space);
    }
    free(space);
}

/* Return where the bytes of `count` elements of a datatype lie, as runs of blocks, to be freed by the caller; NULL if
 * that is not known or the runs are too many. */
WEFT_ASKS struct weft_blocks *weft_find_type_blocks(MPI_Datatype type, int64_t count) {
    MPI_Count lb = 0, extent = 0;
    struct runs *found = make_run_list();
    struct weft_blocks *made = NULL;
    if (!found) return NULL;
    if (REAL(MPI_Type_get_extent_x)(type, &lb, &extent) == MPI_SUCCESS && extent != MPI_UNDEFINED) {
        add_type_runs(found, type, 0);
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

/* Return whether the elements lie one after the other, and each is one block. */
bool weft_has_no_gaps(const struct weft_blocks *blocks) {
    return blocks->blocks == 1 && !blocks->run[0].at &&
           (blocks->count == 1 || blocks->extent == (int64_t)blocks->bytes);
}

/* Return the part of a block that begins with byte number `byte` of an element's data: where it lies in the element,
 * and its bytes up to the end of the block. */
struct weft_block_run weft_find_block_of_byte(const struct weft_blocks *blocks, uint64_t byte) {
    struct weft_block_run run = blocks->run[0];
    for (int i = 0; i < blocks->runs && byte >= (run = blocks->run[i]).times * run.bytes; i++)
        byte -= run.times * run.bytes;
    run.at += (int64_t)(byte / run.bytes) * run.stride + (int64_t)(byte % run.bytes);
    run.bytes -= byte % run.bytes;
    run.times = 1;
    return run;
}
