/* The rest of OpenMP's library: what asks for places or shows settings. Threads are bound to no place here. */
#include "openmp.h"

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
