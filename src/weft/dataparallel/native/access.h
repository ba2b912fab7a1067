/* The accesses of the program, and the time at which they are made. */
#ifndef WEFT_CHECK_ACCESS_H
#define WEFT_CHECK_ACCESS_H

#include "cells.h"

struct clock {
    stamp_t cur; /* this iteration */
    stamp_t base; /* the construct's start: everything newer belongs to the construct */
    bool looked; /* accesses have sites: a parallel construct, or something to guard */
    bool off; /* no checks at all: a child that verifies reductions, or no findings wanted */
};

extern struct clock weft_now; /* `cur`, then `base`: weft.instrument.assembly knows that */
#define now weft_now

extern unsigned weft_depth; /* of the functions that are being run */
void access_range(uintptr_t address, size_t size, bool is_write, uintptr_t pc);

/* Of what is put out whole, but for the gaps in it. */
void check_structure_output(uintptr_t address, size_t byte_count, uintptr_t pc);

#endif
