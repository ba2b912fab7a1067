/* What programs ask OpenMP for, and what it tells them; in C and (with an underscore) in Fortran. */
#include "openmp.h"

#include <string.h>
#include <time.h>

static int asked_by_program; /* omp_set_num_threads */
static int levels_allowed = 8;
static int dynamic, schedule_kind = 1, schedule_chunk = 1;

/* Replace omp_get_thread_num() in the program's own code, and note that the region's behaviour may depend on the thread
 * number. */
int weft_omp_get_thread_num(void) {
    if (me->team) me->team->number_asked = true;
    return me->team && !me->team->league ? me->number : 0;
}
int omp_get_thread_num_(void) { return weft_omp_get_thread_num(); }

/* The compiler's, for master and masked. */
int omp_get_thread_num(void) { return me->team && !me->team->league ? me->number : 0; }

int omp_get_num_threads(void) { return me->team && !me->team->league ? me->team->size : 1; }
int omp_get_num_threads_(void) { return omp_get_num_threads(); }

NUMBER(get_max_threads, weft_omp_default)
NUMBER(get_num_procs, weft_omp_default)
NUMBER(get_dynamic, dynamic)
NUMBER(get_nested, levels_allowed > 1)
NUMBER(get_max_active_levels, levels_allowed)
NUMBER(get_supported_active_levels, 255)
NUMBER(get_thread_limit, 512)
NUMBER(get_cancellation, getenv("OMP_CANCELLATION") != NULL)
NUMBER(get_proc_bind, 0)
NUMBER(get_num_places, 0)
NUMBER(get_place_num, -1)
NUMBER(get_max_task_priority, 0)
NUMBER(get_max_teams, 0)
NUMBER(get_teams_thread_limit, 0)
NUMBER(get_level, me->team && me->team->size > 0 ? me->team->level : 0)

/* OpenMP API: return how many enclosing parallel regions have more than one thread. */
int omp_get_active_level(void) {
    int level = 0;
    for (const struct team *team = me->team; team; team = team->outer) level += team->size > 1;
    return level;
}
int omp_get_active_level_(void) { return omp_get_active_level(); }
int omp_in_parallel(void) { return omp_get_active_level() > 0; }
int omp_in_parallel_(void) { return omp_in_parallel(); }
int omp_in_final(void) { return me->task && me->task->final; }
int omp_in_final_(void) { return omp_in_final(); }
NUMBER(in_explicit_task, me->task && me->task->is_explicit)
int omp_get_team_size(int level) { return me->team && level == me->team->level ? me->team->size : 1; }
int omp_get_team_size_(const int *level) { return omp_get_team_size(*level); }
int omp_get_ancestor_thread_num(int level) { return me->team && level == me->team->level ? me->number : 0; }
int omp_get_ancestor_thread_num_(const int *level) { return omp_get_ancestor_thread_num(*level); }

/* OpenMP API: set the team size. A value of 1 is ignored for the simulated size, as a team of one could not show a
 * race. */
void omp_set_num_threads(int thread_count) {
    asked_by_program = thread_count;
    if (thread_count > 1) weft_omp_default = thread_count;
}
void omp_set_num_threads_(const int *n) { omp_set_num_threads(*n); }
void omp_set_num_threads_8_(const int64_t *n) { omp_set_num_threads((int)*n); }

#define SET(name, variable)                                                                                            \
    void omp_set_##name(int value) { variable = value; }                                                               \
    void omp_set_##name##_8_(const int64_t *value) { variable = (int)*value; }                                         \
    void omp_set_##name##_(const int *value) { variable = *value; }
SET(dynamic, dynamic)
SET(nested, levels_allowed)
SET(max_active_levels, levels_allowed)
SET(num_teams, asked_by_program)
SET(teams_thread_limit, asked_by_program)

void omp_set_schedule(int kind, int chunk) { schedule_kind = kind, schedule_chunk = chunk; }
void omp_set_schedule_(const int *kind, const int *chunk) { omp_set_schedule(*kind, *chunk); }
void omp_get_schedule(int *kind, int *chunk) { *kind = schedule_kind, *chunk = schedule_chunk; }
void omp_get_schedule_(int *kind, int *chunk) { omp_get_schedule(kind, chunk); }

/* OpenMP API: return the monotonic clock in seconds. */
double omp_get_wtime(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}
double omp_get_wtime_(void) { return omp_get_wtime(); }
double omp_get_wtick(void) { return 1e-9; }
double omp_get_wtick_(void) { return 1e-9; }

/* Allocators of the program's own: of their traits only the alignment means something here. */
#define OWN 1000
static size_t alignments[64];
static int allocators;

/* Return the alignment in bytes that a program-defined allocator asks for, at least 16. */
static size_t find_allocator_alignment(uintptr_t allocator) {
    return allocator >= OWN && allocator < OWN + 64 && alignments[allocator - OWN] > 16 ? alignments[allocator - OWN]
                                                                                        : 16;
}

/* OpenMP API: allocate memory with the larger alignment of the argument and the allocator. */
void *omp_aligned_alloc(size_t align, size_t size, uintptr_t allocator) {
    size_t least = find_allocator_alignment(allocator), alignment = align > least ? align : least;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}
void *omp_alloc(size_t n, uintptr_t allocator) { return omp_aligned_alloc(16, n, allocator); }

/* OpenMP API: allocate zeroed memory with the larger alignment of the argument and the allocator. */
void *omp_aligned_calloc(size_t align, size_t count, size_t size, uintptr_t allocator) {
    void *block = omp_aligned_alloc(align, count * size, allocator);
    return block ? memset(block, 0, count * size) : block;
}
void *omp_calloc(size_t n, size_t size, uintptr_t allocator) { return omp_aligned_calloc(16, n, size, allocator); }
void *omp_realloc(void *p, size_t n, uintptr_t allocator, uintptr_t old) {
    return (void)allocator, (void)old, realloc(p, n);
}
void omp_free(void *p, uintptr_t allocator) { (void)allocator, free(p); }
struct trait {
    int key; /* 2: alignment */
    uintptr_t value;
};

/* OpenMP API: create an allocator and return its handle. Only its alignment matters here; after 63 of them all share
 * one. */
uintptr_t omp_init_allocator(uintptr_t memory_space, int trait_count, const struct trait *traits) {
    (void)memory_space;
    int slot = allocators < 63 ? allocators++ : 63;
    for (int i = 0; i < trait_count; i++)
        if (traits[i].key == 2) alignments[slot] = traits[i].value;
    return OWN + (uintptr_t)slot;
}
uintptr_t omp_init_allocator_(const uintptr_t *space, const int *count, const struct trait *traits) {
    return omp_init_allocator(*space, *count, traits);
}
uintptr_t omp_init_allocator_8_(const uintptr_t *space, const int64_t *count, const struct trait *traits) {
    return omp_init_allocator(*space, (int)*count, traits);
}
void omp_destroy_allocator(uintptr_t allocator) { (void)allocator; }
void omp_destroy_allocator_(const uintptr_t *allocator) { (void)allocator; }
static uintptr_t default_allocator = 1;
void omp_set_default_allocator(uintptr_t allocator) { default_allocator = allocator; }
void omp_set_default_allocator_(const uintptr_t *allocator) { default_allocator = *allocator; }
uintptr_t omp_get_default_allocator(void) { return default_allocator; }
uintptr_t omp_get_default_allocator_(void) { return default_allocator; }
void omp_display_env(int verbose) { (void)verbose; }
int omp_pause_resource(int kind, int d) { return (void)kind, (void)d, 0; }
int omp_pause_resource_all(int kind) { return (void)kind, 0; }

void GOMP_warning(const char *text, size_t n) { (void)text, (void)n; }
void GOMP_error(const char *text, size_t n) { (void)text, (void)n, abort(); }
