/* Arrays with ghost cells of native programs: what halo.c sees of them, and halo_log.c writes down. */
#ifndef WEFT_HALO_H
#define WEFT_HALO_H

#include "access.h"
#include "halo_kinds.h"

enum { DIMENSIONS = 8, PARTS = 64, GROUPS = 16, READS = 32, WINDOW = 64, LONGEST_LOAD = 16 };
enum { GRID = 32, MOST_PAIRS = 1 << 20, FIRST = 1 << 8 }; /* FIRST: entries of what grows */
enum { INNER, EDGE, GHOST, OF_CELL = 3, EPOCH_SHIFT = 2, EPOCHS = 1 << 30 };

struct cell_set { /* some cells of a part, and their values as they were written down last */
    uint32_t n, *places;
    float *seen, *now;
    bool known;
};
struct ghost_array { /* this rank's part of an array that ranks share, with copies of neighbours' cells (ghosts) */
    uint32_t number, open; /* open: groups that store cells of it */
    uintptr_t low, high;
    int letter, dims, shift; /* size is 1 << shift, or shift -1 */
    size_t size;
    int64_t shape[DIMENSIONS], halo[DIMENSIONS];
    uint64_t count;
    uint32_t *cells; /* of each what it is, and in which epoch it was stored last */
    struct cell_set edge, ghosts;
    uint64_t looks, stores; /* at ghosts, and of ghosts */
    uint64_t looked_at, looked_stores, checked_at, checked_epoch;
};
struct load { /* of a ghost */
    struct ghost_array *array;
    uint32_t place;
    uintptr_t at;
    uint64_t looks, runs;
};
struct pair {
    uint32_t read, ghost, target;
};
struct group {
    uintptr_t at;
    struct ghost_array *array;
    bool copies, of_ghosts;
    uint64_t hash, moment;
    uint32_t places_n, places_space, *places, pairs_n, pairs_space, reads;
    struct pair *pairs;
    struct load read[READS]; /* the first load of each line */
};
struct grid { /* of a communicator: of one that has none its ranks in a row; n 0: not known */
    int n, dims[GRID], periods[GRID], coordinates[GRID];
};
struct declaration { /* a part, as the program declared it */
    const char *of, *file, *function;
    int line, lag;
    struct grid grid;
    bool reversed; /* the program counts dimensions from the other end, as Fortran does, and from 1 */
    const int64_t *lower, *periodic; /* where the communicator does not say it; NULL: it does */
    bool inferred, again; /* no line says its widths; it was declared with others before, as number `before` */
    uint32_t before;
};

/* Return a hash continued by one more value. */
WEFT_INLINE uint64_t mix_hash(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/* The file of this process; false where there is none. */
WEFT_COLD bool weft_open_ghost_log(void);
WEFT_COLD void weft_close_ghost_log(void);
WEFT_COLD void weft_drop_ghost_log_in_child(void);
WEFT_HIDDEN bool weft_is_ghost_log_full(void);
WEFT_HIDDEN void weft_write_ghost_record(int kind, uint64_t moment, const void *head, size_t head_n,
                                         const void *payload, size_t n);
WEFT_COLD void weft_read_process_grid(MPI_Comm comm, struct grid *grid);
WEFT_COLD void weft_write_array_declaration(const struct ghost_array *p, const struct declaration *declaration,
                                            uint64_t moment);

/* A part with these widths; false where it cannot be one. `declaration` gets its number as `before`. */
WEFT_COLD bool weft_watch_ghost_array(const struct ghost_array *given, const int64_t *shape, const int64_t *halo,
                                      struct declaration *declaration);
WEFT_HIDDEN uint64_t weft_count_own_calls(void);
/* Whether this is the thread that declared the arrays, and they are written down. */
WEFT_HIDDEN bool weft_is_ghost_watch_thread(void);

/* One whose widths are not declared, from here on (halo_infer.c). */
WEFT_COLD bool weft_watch_array_of_unknown_widths(const struct ghost_array *given, const int64_t *shape,
                                                  const struct declaration *declaration);
/* No longer what is declared between these addresses. */
WEFT_COLD void weft_forget_arrays_of_unknown_widths(uintptr_t low, uintptr_t high);

/* One more time of the group's use, which is written down when it comes for the first time. */
WEFT_HIDDEN void weft_write_store_group(const struct group *g);

#endif
