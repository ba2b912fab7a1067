/* What Fortran's library reads for a program that prints: the linker sends these calls here. Only old copies are looked
 * for; what is printed within a parallel region is the library's own order. */
#include "openmp.h"

/* Of an array, as gfortran hands it over (since version 8). */
struct descriptor {
    char *base;
    size_t offset, element;
    int version;
    int8_t rank, type;
    int16_t attribute;
    ptrdiff_t span;
    struct {
        ptrdiff_t stride, low, high;
    } dimensions[15];
};

static void part_read(const struct descriptor *d, char *at, int dimension, uint32_t place) {
    if (dimension < 0) {
        devices_access((uintptr_t)at, d->element, false, place);
        return;
    }
    ptrdiff_t step = d->dimensions[dimension].stride * (d->span ? d->span : (ptrdiff_t)d->element);
    for (ptrdiff_t i = d->dimensions[dimension].low; i <= d->dimensions[dimension].high; i++, at += step)
        part_read(d, at, dimension - 1, place);
}

#define SCALAR(name, size)                                                                                             \
    extern void __real__gfortran_transfer_##name##_write(void *, void *, int) __attribute__((weak));                   \
    void __wrap__gfortran_transfer_##name##_write(void *io, void *p, int kind) {                                       \
        if (now.devices && p) devices_access((uintptr_t)p, (size_t)(size), false, place_of(PLACE));                    \
        __real__gfortran_transfer_##name##_write(io, p, kind);                                                         \
    }
SCALAR(integer, kind)
SCALAR(logical, kind)
SCALAR(real, kind)
SCALAR(complex, 2 * kind)
SCALAR(character, kind) /* kind: its length */

extern void __real__gfortran_transfer_array_write(void *, void *, int, size_t) __attribute__((weak));
void __wrap__gfortran_transfer_array_write(void *io, void *array, int kind, size_t length) {
    const struct descriptor *d = array;
    if (now.devices && d && d->base && d->rank > 0 && d->rank <= 15)
        part_read(d, d->base, d->rank - 1, place_of(PLACE));
    __real__gfortran_transfer_array_write(io, array, kind, length);
}
