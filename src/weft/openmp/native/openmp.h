/* The simulated OpenMP runtime of `weft check`: what its parts know of each other.
 *
 * The program is compiled with -fopenmp and the compiler's access hooks, and linked with this in place of libgomp. Threads
 * of a team are real threads of which one runs at a time, so that the run is the same each time. What runs is divided into
 * strands; each iteration of a worksharing loop, each section and each task is a strand of its own, whichever thread
 * happens to run it. Two accesses of one place are a race where no path of strands orders them.
 *
 * Shadow: for each granule a word of 4 bytes in each of three planes, so that what is only written costs one of them: the
 * last write, and two reads that no path orders. A word is a mark: the number of who accessed and where.
 *
 *     +---------------------+       +----------------------+----------------------+
 *     | mark (4 bytes)      |  ---> | strand (4 bytes)     | place (4 bytes)      |   marks, at their number
 *     +---------------------+       +----------------------+----------------------+
 *
 * place: return address of the hook less the program's start, its top bit set for an atomic access, and so is its mark's. A
 * granule has 8 bytes; where smaller parts are accessed, its write is SPLIT and the planes of 4-byte or 1-byte granules hold.
 * Strands and marks rise with time, and all below `weft_omp.base` and `old` come before everything that runs now: nothing is
 * ever cleared. Marks that rise tell at once who it was: those from `is_mark_of_this_turn` on are the running strand's.
 * Example: old 100, mine 140; the word says 120: another strand of this region, to be ordered with ours: marks[120] has it.
 */
#ifndef WEFT_OPENMP_H
#define WEFT_OPENMP_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef uint32_t strand_t;

typedef uint32_t mark_t;

#define SPLIT 0xFFFFFFFFu   /* look into the finer planes */
#define IGNORED 0xFFFFFFFEu /* the runtime's own, a thread each: never a race */
#define SPECIAL 0xFFFFFF00u
#define ATOMIC 0x80000000u
#define PLAIN_END 0x7FF00000u /* marks of accesses that are not atomic are below */
#define ROW 1u                /* of an iteration of the row of its time */

struct mark {
    strand_t strand;
    uint32_t place;
};

enum kind { ROOT, REGION, IMPLICIT, ITERATION, SECTION, TASK, LOCKED, SEGMENT, LANE, SINGLE, HISTORY };

/* What makes a TASK: the construct task, target, or one that copies between host and device. */
enum maker { BY_TASK, BY_TARGET, BY_COPY };

/* Something that comes before a strand beside its parent: `node` and what follows of it up to `last`. */
struct before {
    strand_t node, last;
    bool by_lock; /* in this run: who had the lock first */
    struct before *next;
};

struct node {
    strand_t parent;
    uint16_t depth;
    uint8_t kind;
    bool joined : 1;   /* over, and waited for by its parent */
    bool leads_on : 1; /* it, or a part of it, comes before others otherwise than by the tree */
    uint64_t locks; /* held; of a LANE: safelen */
    struct before *before;
    uint32_t loop; /* is_share(): which instance, rising as a thread meets them; TASK: its maker */
    uint32_t seen; /* by the search with this number */
    int64_t index; /* the iteration's number; the thread's, the task's; of LOCKED: which locks it shares with readers */
    uint32_t place; /* of the construct */
    strand_t number; /* its own; another one's where the node was not written yet (write_node()) */
};

/* A worksharing construct as a team meets it. */
struct work {
    uint32_t loop, place;
    bool begun, is_static;
    int safelen; /* of lanes; 0: none */
    uint64_t start, step, count; /* iteration k: start + k * step */
    int part_bits; /* a thread takes 1 << part_bits iterations one behind the other */
    uint64_t taken; /* sections */
    bool ordered, lanes;
    bool is_whole; /* runs as a part of the strand around it */
    int64_t turn; /* ordered: the iteration whose turn it is */
    strand_t last_ordered, last_node;
    void *memory; /* of GOMP_loop_start and copyprivate */
    unsigned dimensions;
    uint64_t counts[16];
    uint8_t *posted; /* doacross: whether an iteration has posted */
    struct node_range {
        strand_t node, last;
    } *post;
    uint64_t cancelled;
    struct work *next;
};

struct task;

struct taskgroup {
    struct taskgroup *outer;
    uintptr_t *reductions;
    strand_t *tasks;
    size_t count, room;
    bool cancelled;
};

struct depend {
    uintptr_t address;
    strand_t out, *ins;
    strand_t out_last, *in_lasts;
    size_t count, room;
    uint8_t sort; /* of the last ones */
    strand_t *before; /* what the set of mutexinoutset or inoutset comes after */
    size_t before_count;
    struct depend *next;
};

/* An implicit or explicit task that runs. */
struct task {
    struct task *outer;
    strand_t *children;
    size_t count, room;
    struct taskgroup *group;
    struct depend *depends[64];
    bool final, is_explicit; /* is_explicit: what runs is a task that the program made, in no region within it */
};

#define LANES 1000000u /* num_threads of a simd loop, and its safelen (weft.openmp.directives) */

enum state { READY, WAITING, AT_BARRIER, OVER, IDLE };

struct team {
    int size, arrived, over;
    strand_t region;
    struct thread **threads;
    unsigned phase;
    bool number_asked; /* the program asked for a thread's number */
    bool cancelled;
    int level;
    struct work *works;
    uint32_t works_made;
    uintptr_t barrier_place;
    uint32_t place;
    struct team *outer;
    void (*function)(void *);
    void *data;
    int within; /* its place in the team around it */
    bool league, in_turn, on_device; /* in_turn: a league's teams run one after another in one thread */
    unsigned lanes; /* of a simd loop: LANES and its safelen; 0: none */
    uint32_t target;
    uintptr_t *reductions;
    void *copied;
};

struct span {
    uintptr_t low, high;
};

#define MOST_PRIVATES 24
#define MOST_FENCED 16

struct thread {
    pthread_t id;
    int system_id; /* the system's number of it */
    sem_t go;
    int slot, number; /* number: in its team */
    enum state state;
    struct team *team;
    struct task *task;
    strand_t current, plain; /* plain: without the locks that are held */
    uint64_t held, shared; /* locks; those of them that it has as a reader among others */
    uint64_t wrote; /* locks under which it has written since it took them */
    strand_t released; /* a strand that has left a lock: what it does next is apart from what it did before */
    strand_t locked; /* the last strand with locks, which is taken again for the same ones */
    uint32_t work_number;
    struct work *work;
    int64_t next_row;
    int64_t iteration;
    uintptr_t frame; /* of the implicit task: what is below on the stack is its own */
    uintptr_t stack_low, stack_high, tls_low, tls_high, lowest;
    uintptr_t parked_frame;
    strand_t fence_from[MOST_FENCED]; /* the releases that relaxed loads read from since the last fence */
    int fence_count;
    bool fenced;
    struct span privates[MOST_PRIVATES]; /* private variables without a value, and the bounds of all */
    int private_count;
    uintptr_t private_low, private_high;
    const void *waits_for;
    uint32_t wait_place;
    bool on_device;
    uintptr_t device_frame; /* what is below on the stack is the target region's own */
    uintptr_t target_frame; /* the same where the host runs it */
    uint32_t target; /* place of the target region */
    struct data_region *data_regions;
};

#define PAST 4

struct clock {
    strand_t current, base, next;
    strand_t row, row_end; /* iterations of one loop that were made one after another: nothing orders two of them */
    uint32_t row_loop;
    struct {
        strand_t end, parent; /* end: the newest strand is the one before */
        uint32_t loop;
        int64_t index, step; /* index: of that strand */
    } series; /* the last one (strands.c) */
    mark_t old, mark, old_atomic, atomic; /* marks: those that are over are below, and the next ones */
    mark_t mine, room; /* from here on, so many, the running strand's */
    mark_t atomic_since; /* those of atomics below are not of the strand that runs, nor of its segments */
    mark_t past[PAST]; /* some that are known to come before what runs */
    bool any_past, first_turn; /* first_turn: what runs never ran before */
    /* Marks, so many from `calm` on, of the strand around a simd loop since its turn began, and of the loops in it that
     * are over: they come before the loop's lanes, and before the strand when the loop is over. */
    mark_t calm, calm_room;
    uint32_t calm_breaks; /* how often anything else ran */
    bool keeps_calm; /* what runs next is of the simd loop */
    strand_t newest; /* that ran */
    mark_t row_mark; /* those with ROW from here on are of the last row */
    bool on, touched; /* touched: memory was accessed since an iteration began */
    bool in_row; /* the running strand, and no path orders it otherwise than by the tree */
    bool apart; /* accesses are looked at one by one: nothing is checked, or locks are held or were just left, or: */
    bool devices, locks; /* some memory has a copy on a device; locks are held or were just left */
    uintptr_t start; /* of the program's text */
    size_t text; /* its bytes */
};

extern struct clock weft_omp;
extern struct thread *weft_me; /* which of them runs: one at a time */
#define now weft_omp
#define me weft_me
#define PLACE ((uintptr_t)__builtin_return_address(0))
/* The place of a function that the compiler made of a construct: its first line is the directive's. */
#define BEGINNING(function) ((uintptr_t)(function) + 1)
#define FRAME ((uintptr_t)__builtin_frame_address(0))
#define PLACES ((size_t)1 << 31)
static inline uint32_t place_of(uintptr_t address) { return (uint32_t)(address - now.start) & ~ATOMIC; }

/* --- strands.c */
extern struct node *weft_nodes; /* from `weft_first` on */
extern strand_t weft_first;
extern uint32_t weft_order_version; /* rises where more strands may be ordered than before */
struct node *write_node(strand_t strand);
static inline struct node *node(strand_t s) {
    struct node *found = &weft_nodes[s - weft_first];
    return __builtin_expect(found->number == s, true) ? found : write_node(s);
}
/* A strand is over and its parent has waited for it. */
static inline void mark_as_joined(strand_t s) {
    node(s)->joined = true;
    weft_order_version++;
}
struct node compute_node(strand_t strand); /* the same, and nothing is written */
void set_current_strand(strand_t strand); /* the one that accesses memory from here on */
void set_checking(bool is_on);
strand_t create_strand(strand_t parent, enum kind kind, uint64_t locks);
strand_t create_share(strand_t parent, const struct work *work, int64_t index); /* an iteration or a lane */
void set_share_index(strand_t strand, int64_t index);
bool is_ordered(strand_t earlier, strand_t later);
bool is_ordered_nearby(strand_t earlier, strand_t later, int steps, bool answer_if_unknown);
bool is_ordered_without_locks(strand_t earlier, strand_t later); /* whoever has a lock first */
bool are_of_same_thread(strand_t earlier, strand_t later);
void order_strand_after(strand_t strand, strand_t earlier, strand_t last);
void order_strand_after_by_lock(strand_t strand, strand_t earlier, strand_t last);
/* Return whether the region has so many strands (iterations, tasks) that iterations must share them. */
static inline bool has_too_many_strands(void) { return now.next - now.base > (strand_t)24 << 20; }
strand_t add_release_to_history(strand_t history, strand_t released); /* what was done under a lock, up to now */
strand_t create_history_of_two(strand_t first, strand_t first_last, strand_t second);

/* Return the strand (iteration, task or thread) that a node belongs to, ignoring the locks it holds. */
static inline strand_t find_strand_without_locks(strand_t strand) {
    while (strand >= weft_first && node(strand)->kind == LOCKED) strand = node(strand)->parent;
    return strand;
}

/* Return the whole strand (iteration, task or thread) that a node is a part of, ignoring locks and segments. */
static inline strand_t find_whole_strand(strand_t strand) {
    while (strand >= weft_first && (node(strand)->kind == LOCKED || node(strand)->kind == SEGMENT))
        strand = node(strand)->parent;
    return strand;
}

/* Return whether a strand is one unit of a worksharing construct (iteration, section, single, lane), which any thread
 * may execute. */
static inline bool is_share(const struct node *candidate) {
    return candidate->kind == ITERATION || candidate->kind == SECTION || candidate->kind == SINGLE ||
           candidate->kind == LANE;
}
void retire_all_strands(void); /* everything that ran comes before all that follows */
void retire_strands_before(strand_t base);
void run_as_strand(strand_t strand);
strand_t begin_segment(void); /* the running strand from here on, apart from what it did before */

/* A question of the library's without arguments, in C and in Fortran. */
#define NUMBER(name, value)                                                                                            \
    int omp_##name(void) { return value; }                                                                             \
    int omp_##name##_(void) { return value; }

/* An answer of the library's that is a text, as Fortran takes it: `to` and `size`. */
#define TEXT(text) (*to = (text), *size = *to ? strlen(*to) : 0)

/* --- teams.c */
int omp_get_team_num(void); /* the program's own, too: 0 outside of a league */

/* --- shadow.c */
void open_shadow(void);
void check_access(uintptr_t address, size_t size, bool is_write, uint32_t place);
void check_range_access(uintptr_t address, size_t size, bool is_write, uint32_t place); /* of a function that copies */
void clear_shadow(uintptr_t low, uintptr_t high);
void ignore_memory(uintptr_t low, uintptr_t high);
void empty_shadow(void);
bool are_marks_nearly_used_up(void); /* whether their numbers are to begin anew */
void retire_all_marks(void);
uint32_t get_noted_caller(uint32_t place); /* who called a place in C++'s library when it last made a mark; 0: none */
size_t count_accessing_places(void); /* at how many places of the program an access was checked */

/* --- hooks.c */
void refresh_hooks(void); /* what accesses are compared with has changed */
bool begin_next_of_row(uint32_t loop, int64_t index); /* at once, where only the index is new */
void set_bounds(const void *low,
                const void *high); /* where a loop's code reads the bounds that it was given; NULL: none */
void forget_all_notes(void); /* words of the shadow have changed otherwise than by the running strand's accesses */

#define TERA ((uintptr_t)1 << 40)
#define SHADOW (16 * TERA)
#define SHADOW_SIZE (33 * TERA + ((uintptr_t)1 << 30)) /* the planes, and what lies between them */
#define DEVICE_WORDS (SHADOW + SHADOW_SIZE)
#define DEVICE_SIZE (13 * TERA)
void reserve_memory_at(uintptr_t address, size_t size);

/* --- devices.c: which side's copy of what is mapped is old */
struct items { /* of a construct, as the compiler gives them */
    size_t count;
    void **host;
    const size_t *sizes;
    const unsigned short *kinds;
    uint32_t place;
};
void map_items(const struct items *items); /* to the device */
void unmap_items(const struct items *items, bool is_structured);
void update_items(const struct items *items);
enum copying { ENTERS, LEAVES, UPDATES };
void check_host_side(const struct items *items, enum copying when);
void declare_device_variable(uintptr_t low, size_t size);
void check_mapped_access(uintptr_t address, size_t size, bool is_write, uint32_t place);
void forget_copy_states(uintptr_t low, uintptr_t high); /* the memory is another one's from here on */
void remember_written_values(void);
bool is_address_mapped(uintptr_t address);

/* --- targets.c */
void finish_pending_targets(void); /* all target constructs with nowait are waited for */
bool may_pending_target_write(uintptr_t address); /* whether one that is not waited for may still write there */

/* --- threads.c */
bool is_other_thread_ready(void);
void yield_to_other_threads(void); /* let another thread run, if one is ready */
void wait_until_woken(const void *awaited, uint32_t place); /* until wake_waiting_threads(awaited) */
void wake_waiting_threads(const void *awaited);
void wait_at_barrier(uintptr_t place);
void run_parallel_region(void (*function)(void *), void *data, unsigned requested_size, uintptr_t place,
                         uintptr_t frame, bool is_league);
bool is_team_of_one(void); /* whether the running thread is alone, in a team of one or in none */
struct thread *find_stack_owner(uintptr_t address);
extern int weft_omp_default;
extern uintptr_t *weft_omp_region_reductions;

/* --- loops.c */
bool are_dealt_to_same_thread(uint32_t loop, uint32_t other_loop, int64_t index); /* by schedule(static) */
bool run_lanes_as_one(void (*function)(void *), void *data, uintptr_t place); /* a simd loop that ran often */
int64_t find_iteration_number(uint32_t loop, int64_t index); /* from 0 on; -1: it is not known */
int64_t find_shared_chunk_size(uint32_t loop, int64_t index, int64_t other_index); /* 0: they are not of one chunk */
void free_constructs(struct team *team);
uint32_t find_construct_place(const struct team *team, uint32_t number);

/* --- atomics.c */
void note_atomic_release(uintptr_t address, int order);
void note_atomic_acquire(uintptr_t address, int order);

/* --- cost.c */
void start_cost_watch(void);

/* --- locks.c */
#define ORDERED_LOCK 62
bool have_common_lock(strand_t one, strand_t other); /* whether both run in sections of one lock */
bool holds_lock(strand_t strand);
void take_lock(const void *lock, uint32_t place);
void release_lock(const void *lock);
void hold_lock_number(int number);
void unhold_lock_number(int number);
void note_access_near_lock(uintptr_t address, bool is_write); /* under locks, or the first one behind them */
void order_after_locked_write(strand_t writer); /* the running strand, that reads what was written under one lock */
void refresh_locked_strand(void); /* the current strand is the plain one, with the locks that are held */

/* --- tasks.c */
void join_tasks(strand_t **list, size_t *count);
void GOMP_taskwait_depend(void **depend);
void begin_task(struct task *task, struct taskgroup *group);
void free_task_lists(struct task *task);
bool set_task_explicit(bool is_explicit); /* what the running task is from here on; returns what it was */
void run_target_task(void (*fn)(void *), void *data, uint32_t place, enum maker maker, bool is_nowait, void **depend);
bool is_device_task_pending(void); /* whether such a task, made where nothing else is checked, was not waited for yet */
void forget_device_tasks(void);
void join_tasks_of_single_thread(void); /* at a barrier of a single thread: for all that it made */

/* --- detached.c */
uintptr_t create_event(void);
void set_event_task(uintptr_t event, strand_t task);
void wait_for_detached_task(strand_t task); /* others may fulfil its event */
void order_after_detached_task(strand_t strand, strand_t task); /* after the task's event, too */
void join_detached_tasks(void); /* the events of all tasks that are waited for */

/* --- memory.c */

/* Return how many elements of a sorted list have an address or number, `address_offset` bytes into each, that is not
 * above `address`. */
static inline size_t count_elements_up_to(const void *list, size_t count, size_t element_size, size_t address_offset,
                                          uintptr_t address) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (*(const uintptr_t *)((const char *)list + middle * element_size + address_offset) <= address)
            low = middle + 1;
        else high = middle;
    }
    return low;
}
bool find_heap_block(uintptr_t address, uintptr_t *low, size_t *size, int *thread, uint32_t *region_strand);
bool is_device_block(uintptr_t address);
void *allocate_device_memory(size_t align, size_t size);
void *real_malloc(size_t n);

/* --- callers.c */
void read_library_functions(void);
extern bool *weft_library_places;
static inline bool is_library_place(uint32_t place) { return weft_library_places[place]; }
uint32_t find_library_caller(uint32_t place); /* among the running thread's frames; 0: it is not known */

/* --- privates.c */
void check_private_access(uintptr_t address, size_t size, bool is_write, uint32_t place);

/* --- findings.c */
struct access {
    uintptr_t address;
    size_t size;
    bool write, other_write;
    uint32_t place, other_place;
    strand_t strand, other;
    int64_t chunk; /* of the loop's schedule, which gives both to one thread; 0: none does */
};
struct copy { /* a read of an old copy, an access of what has none */
    const char *kind, *why;
    uintptr_t address, near[2]; /* near: what is mapped before and behind it */
    size_t size;
    bool write, device;
    uint32_t place, other_place, region;
};
bool open_findings(void); /* returns whether somebody reads them */
void report_copy(const struct copy *copy);
void report_race(const struct access *access);
bool is_race_reported(uint32_t place, uint32_t other, bool is_write, bool is_other_write); /* a race of two places */
uint64_t count_construct_run(uint32_t place, const char *kind, uint64_t iterations);
void report_valueless_read(uintptr_t address, size_t size, uint32_t place);
void note_directive_line(uint32_t place, uint32_t line); /* the line of a place, which the compiler gave none */
void report_plain_finding(const char *kind, const char *why, uint32_t place, uint32_t other);
void report_no_memory(void);
void report_slow_check(uint32_t place, int times,
                       int share); /* share: percent of the runtime's time, in the construct */
void write_counts(void);

#endif
