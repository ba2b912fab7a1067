/* What ran, and how often. */
#ifndef WEFT_CHECK_RAN_H
#define WEFT_CHECK_RAN_H

#include <stdint.h>

void count_run(int construct_id);
void ran_iterations(int construct_id, uint64_t count);
void count_examined_place(uintptr_t pc);
void write_final_counts(void);

#endif
