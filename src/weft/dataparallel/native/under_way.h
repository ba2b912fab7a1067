/* Asynchronous copies that have not completed. */
#ifndef WEFT_CHECK_UNDER_WAY_H
#define WEFT_CHECK_UNDER_WAY_H

#include <stdbool.h>
#include <stdint.h>

extern int weft_parts_under_way;
bool is_copy_pending_in(uintptr_t low, uintptr_t high);
const char *find_pending_copy_fault(uintptr_t address, bool is_write);
void forget_pending_copies_in(uintptr_t low, uintptr_t high);
void report_unfinished_copies(void);

#endif
