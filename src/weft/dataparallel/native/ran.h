/* What ran, and how often. */
#ifndef WEFT_CHECK_RAN_H
#define WEFT_CHECK_RAN_H

#include <stdint.h>

void ran(int construct);
void ran_iterations(int construct, uint64_t count);
void ran_place(uintptr_t place);
void ran_end(void);

#endif
