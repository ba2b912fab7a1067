/* The arrays, templates and variables that the program told of, and where they lie. */
#ifndef WEFT_CHECK_OBJECTS_H
#define WEFT_CHECK_OBJECTS_H

#include "cells.h"
#include "check.h"

/* One dimension of a mapping. */
struct term {
    int axis; /* >= 0, WEFT_CONSTANT or WEFT_ALL */
    int64_t coefficient, offset;
};

struct widths {
    int64_t low[WEFT_MAX_RANK], high[WEFT_MAX_RANK];
};

/* An array, template or variable. Owned by objects.c; `root` may point to the object itself. */
struct object {
    uintptr_t low, high; /* both 0: no memory (a template) */
    int data;            /* the newest name */
    int first_data;      /* the name it was made with */
    bool array, distributed, on_stack;
    size_t element;
    int rank, order;
    int64_t lower[WEFT_MAX_RANK], extent[WEFT_MAX_RANK], stride[WEFT_MAX_RANK]; /* stride in bytes */
    /* distribution: of this object (a root), or by alignment with a root */
    struct object *root;
    int kinds[WEFT_MAX_RANK];         /* of a root */
    double *blocks[WEFT_MAX_RANK];    /* sizes or weights; NULL: equal blocks */
    int64_t block_count[WEFT_MAX_RANK];
    int64_t *owner[WEFT_MAX_RANK];    /* indirect, derived: the processor of each element; owned by the object */
    struct term map[WEFT_MAX_RANK];   /* for each dimension of the root, from this object's index */
    int tasks;                        /* task array that it is distributed onto; 0: none */
    int64_t task;
    bool deferred;                    /* a later directive is to distribute it */
    /* shadow edges */
    struct widths shadow;   /* declared */
    struct widths renewed;  /* by the last renewal */
    bool corner;            /* the last renewal had corners */
    stamp_t renewed_at;     /* 0: never */
    stamp_t begun_at;       /* an asynchronous renewal that has not completed; 0: none */
    /* copies on host and device (regions.c) */
    stamp_t on_device;   /* first region that used it; 0: none */
    stamp_t actual_at, got_at, host_wrote, device_wrote;
    int direction;       /* in the current region; 0: not named */
    stamp_t local_from, local_to; /* last region in which it was local */
    struct owners *owners; /* of a replicated array: whose copy has which value (copies.c); owned by it */
    unsigned mapped;       /* how often it was distributed or aligned */
    uint64_t version;      /* another one for each mapping of each object */
    struct object *next_free;
};

struct site;
extern const uintptr_t weft_nowhere; /* home of a site that lets nothing pass */

struct object *find_object_at(uintptr_t address);
struct object *find_object(int variable_id, const void *base_address);
void drop_objects_of_returned_functions(uintptr_t stack_pointer);
struct object *find_object_from(uintptr_t address); /* the first that ends above a */
extern uintptr_t weft_lowest_stack;
bool is_on_stack(uintptr_t address);
void set_cell_states(uintptr_t low, uintptr_t high, stamp_t state);
void split_cell_of_8(struct cell *cell, uintptr_t address);
void split_cell_of_4(struct cell *cell, uintptr_t address);
void find_object_or_gap(uintptr_t address, uintptr_t *low, uintptr_t *high);
void rebase_stamps_of_objects(void);
void object_drop(struct object *object);
void close_sites(void);
void forget_sites(void); /* and those that are kept of other blocks */
void add_open_site(struct site *site);
extern uint32_t weft_sites_changed; /* how often a site was opened, closed or moved */
extern uint32_t weft_sites_forgotten; /* how often all were */
struct site *sites_opened(void);
struct term compose_mapping(struct term term, int dimension_count, const int axis[], const int64_t coefficient[],
                            const int64_t offset[]);
void compute_element_index(const struct object *object, uintptr_t address, int64_t index[]);
struct object *register_object(int variable_id, uintptr_t low, size_t bytes);
void set_object_shape(struct object *object, size_t element_size, int dimension_count, const int64_t lower[],
                      const int64_t extent[], int order);

#endif
