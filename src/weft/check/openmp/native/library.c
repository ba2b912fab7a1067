/* The rest of OpenMP's library: what asks for places, shows settings or copies between devices. Threads are bound to no
 * place here, and there is no device but the host. */
#include "openmp.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/* --- places: there are none -------------------------------------------------------------------------------------- */

int omp_get_place_num_procs(int place) { return (void)place, 0; }
int omp_get_place_num_procs_(const int *place) { return (void)place, 0; }
int omp_get_place_num_procs_8_(const int64_t *place) { return (void)place, 0; }
void omp_get_place_proc_ids(int place, int *ids) { (void)place, (void)ids; }
void omp_get_place_proc_ids_(const int *place, int *ids) { (void)place, (void)ids; }
void omp_get_place_proc_ids_8_(const int64_t *place, int64_t *ids) { (void)place, (void)ids; }
int omp_get_partition_num_places(void) { return 0; }
int omp_get_partition_num_places_(void) { return 0; }
void omp_get_partition_place_nums(int *places) { (void)places; }
void omp_get_partition_place_nums_(int *places) { (void)places; }
void omp_get_partition_place_nums_8_(int64_t *places) { (void)places; }

/* --- what is shown of threads: nothing --------------------------------------------------------------------------- */

static char affinity_format[256] = "level %L thread %i affinity %A";

static void keep_format(const char *format, size_t size) {
    if (size >= sizeof affinity_format) size = sizeof affinity_format - 1;
    memmove(affinity_format, format, size);
    affinity_format[size] = 0;
}

void omp_set_affinity_format(const char *format) { keep_format(format, strlen(format)); }
void omp_set_affinity_format_(const char *format, size_t size) {
    while (size && format[size - 1] == ' ') size--;
    keep_format(format, size);
}

size_t omp_get_affinity_format(char *to, size_t room) {
    size_t size = strlen(affinity_format);
    if (room) {
        size_t part = size < room ? size : room - 1;
        memmove(to, affinity_format, part);
        to[part] = 0;
    }
    return size;
}
int omp_get_affinity_format_(char *to, size_t room) {
    size_t size = strlen(affinity_format), part = size < room ? size : room;
    memmove(to, affinity_format, part);
    memset(to + part, ' ', room - part);
    return (int)size;
}

void omp_display_affinity(const char *format) { (void)format; }
void omp_display_affinity_(const char *format, size_t size) { (void)format, (void)size; }
size_t omp_capture_affinity(char *to, size_t room, const char *format) {
    (void)format;
    if (room) *to = 0;
    return 0;
}
int omp_capture_affinity_(char *to, const char *format, size_t room, size_t size) {
    (void)format, (void)size;
    memset(to, ' ', room);
    return 0;
}

void omp_display_env_(const int *verbose) { (void)verbose; }
void omp_display_env_8_(const int64_t *verbose) { (void)verbose; }

/* --- Fortran's names of what C has elsewhere --------------------------------------------------------------------- */

extern int omp_get_ancestor_thread_num(int level), omp_get_team_size(int level);
extern void omp_get_schedule(int *kind, int *chunk), omp_set_schedule(int kind, int chunk),
    omp_fulfill_event(uintptr_t e);

int omp_get_ancestor_thread_num_8_(const int64_t *level) { return omp_get_ancestor_thread_num((int)*level); }
int omp_get_team_size_8_(const int64_t *level) { return omp_get_team_size((int)*level); }
void omp_set_schedule_8_(const int *kind, const int64_t *chunk) { omp_set_schedule(*kind, (int)*chunk); }
void omp_get_schedule_8_(int *kind, int64_t *chunk) {
    int as = 0;
    omp_get_schedule(kind, &as);
    *chunk = as;
}
void omp_fulfill_event_(uintptr_t event) { omp_fulfill_event(event); }
int omp_pause_resource_(const int *kind, const int *device) { return (void)kind, (void)device, 0; }
int omp_pause_resource_all_(const int *kind) { return (void)kind, 0; }

/* --- devices ----------------------------------------------------------------------------------------------------- */

/* As every OpenMP has it where there is no device. */
int omp_target_associate_ptr(const void *host, const void *of, size_t size, size_t at, int device) {
    (void)host, (void)of, (void)size, (void)at, (void)device;
    return EINVAL;
}
int omp_target_disassociate_ptr(const void *p, int device) { return (void)p, (void)device, EINVAL; }

struct box {
    size_t element;
    const size_t *volume, *to_at, *from_at, *to_size, *from_size;
};

/* The part of a box below one of its dimensions. */
static void copy_box(char *to, const char *from, const struct box *b, int dimension, int dimensions) {
    size_t to_row = b->element, from_row = b->element;
    for (int d = dimension + 1; d < dimensions; d++) to_row *= b->to_size[d], from_row *= b->from_size[d];
    to += b->to_at[dimension] * to_row, from += b->from_at[dimension] * from_row;
    if (dimension + 1 == dimensions) {
        memcpy(to, from, b->volume[dimension] * b->element);
        return;
    }
    for (size_t i = 0; i < b->volume[dimension]; i++)
        copy_box(to + i * to_row, from + i * from_row, b, dimension + 1, dimensions);
}

int omp_target_memcpy_rect(void *to, const void *from, size_t element, int dimensions, const size_t *volume,
                           const size_t *to_at, const size_t *from_at, const size_t *to_size, const size_t *from_size,
                           int to_device, int from_device) {
    (void)to_device, (void)from_device;
    if (!to && !from) return INT_MAX;
    if (dimensions < 1) return EINVAL;
    copy_box(to, from, &(struct box){element, volume, to_at, from_at, to_size, from_size}, 0, dimensions);
    return 0;
}
