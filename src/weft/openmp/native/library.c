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

/* Store the affinity format, `length` bytes, truncated to the buffer. */
static void set_format(const char *format, size_t length) {
    if (length >= sizeof affinity_format) length = sizeof affinity_format - 1;
    memmove(affinity_format, format, length);
    affinity_format[length] = 0;
}

void omp_set_affinity_format(const char *format) { set_format(format, strlen(format)); }
void omp_set_affinity_format_(const char *format, size_t size) {
    while (size && format[size - 1] == ' ') size--;
    set_format(format, size);
}

/* OpenMP API: copy the affinity format into a buffer, truncated, and return its full length. */
size_t omp_get_affinity_format(char *buffer, size_t buffer_size) {
    size_t size = strlen(affinity_format);
    if (buffer_size) {
        size_t copied = size < buffer_size ? size : buffer_size - 1;
        memmove(buffer, affinity_format, copied);
        buffer[copied] = 0;
    }
    return size;
}

/* OpenMP API for Fortran: copy the affinity format into a buffer, truncated or padded with blanks, and return its full
 * length. */
int omp_get_affinity_format_(char *buffer, size_t buffer_size) {
    size_t size = strlen(affinity_format), copied = size < buffer_size ? size : buffer_size;
    memmove(buffer, affinity_format, copied);
    memset(buffer + copied, ' ', buffer_size - copied);
    return (int)size;
}

void omp_display_affinity(const char *format) { (void)format; }
void omp_display_affinity_(const char *format, size_t size) { (void)format, (void)size; }

/* OpenMP API: return an empty text, since the simulated threads are not bound to places. */
size_t omp_capture_affinity(char *buffer, size_t buffer_size, const char *format) {
    (void)format;
    if (buffer_size) *buffer = 0;
    return 0;
}

/* OpenMP API for Fortran: return a blank text, since the simulated threads are not bound to places. */
int omp_capture_affinity_(char *buffer, const char *format, size_t buffer_size, size_t format_length) {
    (void)format, (void)format_length;
    memset(buffer, ' ', buffer_size);
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

/* OpenMP API for Fortran with 8-byte default integers: return the runtime schedule. */
void omp_get_schedule_8_(int *kind, int64_t *chunk) {
    int chunk_as_int = 0;
    omp_get_schedule(kind, &chunk_as_int);
    *chunk = chunk_as_int;
}
void omp_fulfill_event_(uintptr_t event) { omp_fulfill_event(event); }
int omp_pause_resource_(const int *kind, const int *device) { return (void)kind, (void)device, 0; }
int omp_pause_resource_all_(const int *kind) { return (void)kind, 0; }
