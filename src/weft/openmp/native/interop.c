/* Objects of interop: the simulated device has nothing of another system's to hand out, so that each is none. */
#include "openmp.h"

#include <string.h>

/* Called by GCC's code for `#pragma omp interop`: each object that is made or destroyed becomes omp_interop_none, as
 * there is no foreign runtime. */
void GOMP_interop(int device, int init_count, uintptr_t **init_objects, const int *types,
                  const char *const *preferences, int use_count, uintptr_t **use_objects, int destroy_count,
                  uintptr_t **destroy_objects, unsigned flags, void **depend) {
    (void)device, (void)types, (void)preferences, (void)use_count, (void)use_objects, (void)flags;
    for (int i = 0; i < init_count; i++) *init_objects[i] = 0;
    for (int i = 0; i < destroy_count; i++) *destroy_objects[i] = 0;
    if (depend) GOMP_taskwait_depend(depend);
}

/* --- what is known of one ------------------------------------------------------------------------------------------ */

enum { LAST_PROPERTY = -1, FIRST_PROPERTY = -9, EMPTY = -1, OUT_OF_RANGE = -2 };

static void set_property_status(int property, int *code) {
    if (code) *code = property < FIRST_PROPERTY || property > LAST_PROPERTY ? OUT_OF_RANGE : EMPTY;
}

int omp_get_num_interop_properties(uintptr_t object) { return (void)object, 0; }
intptr_t omp_get_interop_int(uintptr_t object, int property, int *code) {
    return (void)object, set_property_status(property, code), 0;
}
void *omp_get_interop_ptr(uintptr_t object, int property, int *code) {
    return (void)object, set_property_status(property, code), NULL;
}
const char *omp_get_interop_str(uintptr_t object, int property, int *code) {
    return (void)object, set_property_status(property, code), NULL;
}
void omp_get_interop_str_(const char **to, size_t *size, uintptr_t object, int property, int *code) {
    TEXT(omp_get_interop_str(object, property, code));
}

/* OpenMP API: return the name of a property of interop objects; NULL if there is no such property. */
const char *omp_get_interop_name(uintptr_t object, int property) {
    static const char *const names[] = {"fr_id",    "fr_name", "vendor",         "vendor_name", "device_num",
                                        "platform", "device",  "device_context", "targetsync"};
    (void)object;
    return property < FIRST_PROPERTY || property > LAST_PROPERTY ? NULL : names[LAST_PROPERTY - property];
}
void omp_get_interop_name_(const char **to, size_t *size, uintptr_t object, int property) {
    TEXT(omp_get_interop_name(object, property));
}

const char *omp_get_interop_type_desc(uintptr_t object, int property) { return (void)object, (void)property, NULL; }
void omp_get_interop_type_desc_(const char **to, size_t *size, uintptr_t object, int property) {
    TEXT(omp_get_interop_type_desc(object, property));
}

const char *omp_get_interop_rc_desc(uintptr_t object, int code) {
    (void)object;
    return code == EMPTY ? "the object is omp_interop_none" : code == OUT_OF_RANGE ? "there is no such property" : NULL;
}
void omp_get_interop_rc_desc_(const char **to, size_t *size, uintptr_t object, int code) {
    TEXT(omp_get_interop_rc_desc(object, code));
}
