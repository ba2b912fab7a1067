/* What the libraries of C and Fortran read and write for a program: the linker sends its calls here. */
#include "openmp.h"

typedef uint32_t library_place;
#define HERE place_of(PLACE)
#define WATCHED (now.on || now.devices)
#define RANGE(p, n, write, place) shadow_range((uintptr_t)(p), n, write, place)
#include "fortran.h"
#include "libc.h"

/* A section that is handed to a procedure which wants it in one piece is copied there and back. */
LIBRARY(void *, internal_pack, struct descriptor *d) {
    uint32_t place = HERE;
    void *packed = __real__gfortran_internal_pack(d);
    if (packed != d->base) array(d, false, place);
    return packed;
}
LIBRARY(void, internal_unpack, struct descriptor *d, const void *packed) {
    if (packed != d->base) array(d, true, HERE);
    __real__gfortran_internal_unpack(d, packed);
}
