/* Private variables that have no value yet: they are filled with a pattern, and a read that finds it whole is told. What
 * libraries write is seen so, too. */
#include "openmp.h"

#include <string.h>

#define PATTERN 0xA5
#define WHOLE 16 /* bytes: what is not larger has its value by one write */
#define LARGEST ((size_t)1 << 20)

static void bounds(void) {
    me->private_low = me->private_high = 0;
    for (int i = 0; i < me->private_count; i++) {
        const struct span *s = &me->privates[i];
        if (!i || s->low < me->private_low) me->private_low = s->low;
        if (s->high > me->private_high) me->private_high = s->high;
    }
}

static void forget(int i) {
    me->privates[i] = me->privates[--me->private_count];
    bounds();
}

/* The compiled program calls it at the start of a construct's body, for each variable of its clause private. */
int weft_omp_private(void *p, size_t size) {
    if (!now.on || !p || !size || size > LARGEST) return 1;
    uintptr_t low = (uintptr_t)p;
    for (int i = 0; i < me->private_count; i++)
        if (me->privates[i].low == low) forget(i--);
    if (me->private_count == MOST_PRIVATES) return 1;
    memset(p, PATTERN, size);
    me->privates[me->private_count++] = (struct span){low, low + size};
    bounds();
    return 1;
}

/* Fortran's, by value: the compiler knows that an argument by reference is not kept. */
void weft_omp_private_(void *p, size_t size) { weft_omp_private(p, size); }

static bool untouched(uintptr_t a, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (((const uint8_t *)a)[i] != PATTERN) return false;
    return true;
}

void privates_access(uintptr_t a, size_t size, bool write, uint32_t place) {
    for (int i = 0; i < me->private_count; i++) {
        const struct span *s = &me->privates[i];
        if (a < s->low || a + size > s->high) continue;
        bool small = s->high - s->low <= WHOLE;
        if (!write && !((small || size >= 4) && untouched(a, size))) return;
        if (!write) told_valueless(a, size, place);
        if (small || !write) forget(i);
        return;
    }
}
