/* Private variables that have no value yet: they are filled with a pattern, and a read that finds all of it is reported. What
 * libraries write is seen so, too. */
#include "openmp.h"

#include <string.h>

#define PATTERN 0xA5
#define WHOLE 16 /* bytes: what is not larger has its value by one write */
#define LARGEST ((size_t)1 << 20)

/* Compute the address range that contains all watched private variables of the running thread; only accesses within it
 * are checked. */
static void compute_private_bounds(void) {
    me->private_low = me->private_high = 0;
    for (int i = 0; i < me->private_count; i++) {
        const struct span *variable = &me->privates[i];
        if (!i || variable->low < me->private_low) me->private_low = variable->low;
        if (variable->high > me->private_high) me->private_high = variable->high;
    }
}

static void stop_watching_private(int index) {
    me->privates[index] = me->privates[--me->private_count];
    compute_private_bounds();
}

/* Fill a private variable that has no value yet with a pattern and watch it for reads. The instrumented program calls
 * this for each variable of a `private` clause, within an expression: hence it returns 1. */
int weft_omp_private(void *variable, size_t size) {
    if (!now.on || !variable || !size || size > LARGEST) return 1;
    uintptr_t low = (uintptr_t)variable;
    for (int i = 0; i < me->private_count; i++)
        if (me->privates[i].low == low) stop_watching_private(i--);
    if (me->private_count == MOST_PRIVATES) return 1;
    memset(variable, PATTERN, size);
    me->privates[me->private_count++] = (struct span){low, low + size};
    compute_private_bounds();
    return 1;
}

/* Fortran's, by value: the compiler knows that an argument by reference is not kept. */
void weft_omp_private_(void *p, size_t size) { weft_omp_private(p, size); }

/* Return whether memory consists of nothing but the pattern of valueless variables. */
static bool has_pattern_of_no_value(uintptr_t address, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (((const uint8_t *)address)[i] != PATTERN) return false;
    return true;
}

/* Check an access of a watched private variable: report a read that finds only the pattern, and stop watching a
 * variable once it has a value. */
void check_private_access(uintptr_t address, size_t size, bool is_write, uint32_t place) {
    for (int i = 0; i < me->private_count; i++) {
        const struct span *variable = &me->privates[i];
        if (address < variable->low || address + size > variable->high) continue;
        bool is_small = variable->high - variable->low <= WHOLE;
        if (!is_write && !((is_small || size >= 4) && has_pattern_of_no_value(address, size))) return;
        if (!is_write) report_valueless_read(address, size, place);
        if (is_small || !is_write) stop_watching_private(i);
        return;
    }
}
