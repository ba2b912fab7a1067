/* What the C library reads and writes for a program: the linker sends the program's own calls here. */
#include "openmp.h"

typedef uint32_t library_place;
#define HERE place_of(PLACE)
#define WATCHED true
#define RANGE(p, n, write, place) shadow_range((uintptr_t)(p), n, write, place)
#include "libc.h"
