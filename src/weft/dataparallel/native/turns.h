/* `weft check --trace`: the values of a run, as they are without directives or of each processor in turn.
 *
 * With WEFT_INTERNAL_CHECK_TRACE=sequential the program runs as it is and its values are kept. With WEFT_INTERNAL_CHECK_TRACE=turns a
 * parallel loop is run by one processor of the grid after the other: each but the last is a forked copy of the process,
 * which runs its own iterations alone and sees its own elements, the edges that were renewed, and nothing else. What it
 * accesses, and in the end its own elements and its part of each reduction, come back by a pipe:
 *
 *     event, event, ..., { WEFT_TURN_ENDS } owned elements ..., parts of reductions ...
 *
 * No accesses are judged: that is what a check without --trace is for.
 */
#ifndef WEFT_CHECK_TURNS_H
#define WEFT_CHECK_TURNS_H

#include "objects.h"

struct reduction;

#define MOST_PROCESSORS 256

extern int weft_access_level; /* what of accesses is wanted: 0 none, 1 writes, 2 reads, too */

enum turn_event { TURN_ITERATION = 1, TURN_READ, TURN_WRITE, TURN_ENDS };

/* What a processor does, as it goes through a pipe. */
struct turn_event_record {
    uint32_t what;
    uint32_t n;     /* indices, or bytes of the value */
    uint64_t place; /* of an access */
    uint64_t at;    /* the element's address */
    union {
        int64_t index[WEFT_MAX_RANK];
        unsigned char bytes[32];
    };
};

/* --- trace.c: what is kept --- */
void trace_loop_begins(int processors);
void trace_iterations_end(int processors);
void trace_loop_ends(int processors);
void trace_event(int processor, const struct turn_event_record *event);
void trace_array_part(int processor, const struct object *object, const int64_t low[], const int64_t count[]);
void trace_reduction(int processor, const struct reduction *reduction, double magnitude, int64_t terms);
void trace_report_death(int processor, int signal);

/* --- turns.c: who runs what --- */
extern bool weft_traced; /* values are kept, no access is judged */
void start_traced_loop(void);
bool enter_traced_iteration(int dimension_count, const int64_t index[]); /* true: it is another processor's */
void trace_program_access(uintptr_t address, size_t size, bool is_write, uintptr_t pc);
void turns_renewed(struct object *object);
void end_traced_loop(void);
void enable_tracing(int processors, bool has_directives);

/* Numba's loops: all memory is shared, an iteration's processor is its virtual thread, and each thread has a slot of its
 * own for each reduction. */
void turns_shared(int (*whose)(void));
void add_reduction_slot(int processor, char *memory, size_t bytes);

/* --- shares.c: whose elements are whose --- */
struct share {
    bool any, box;
    unsigned char *own[WEFT_MAX_RANK]; /* by dimension and index from 0: whether it may be this processor's */
    int64_t first[WEFT_MAX_RANK], last[WEFT_MAX_RANK];
};
const struct share *find_or_compute_share(struct object *object, int processor);
void compute_own_iterations(int processor);
bool is_own_iteration(const int64_t index[]);
bool is_distributed_in_memory(const struct object *object); /* whether it is distributed, and has memory */
typedef void run_of(void *with, char *at, size_t bytes);
void visit_runs_of_elements(const struct object *object, const struct share *share, bool is_owned, run_of *visit,
                            void *context);

/* --- views.c: what a processor sees of others --- */
void views_renew(struct object *object);
void save_arrays_before_across_loop(void);
void show_view_of_processor(int processor, const int direction[]);
void undo_view_of_processor(int processor);

/* --- reductions.c: of processors in turn --- */
size_t count_reduction_bytes(void);
void set_reductions_to_neutral(void);
void copy_reductions_to(void *buffer);
void copy_reductions_from(const void *buffer);
void combine_reduction_buffers(void *into, const void *part);
double reduction_value(const struct reduction *reduction);
void silence_forked_copy(int kept_descriptor);

#endif
