/* Asynchronous copies that have not completed. */
#ifndef WEFT_CHECK_UNDER_WAY_H
#define WEFT_CHECK_UNDER_WAY_H

#include <stdbool.h>
#include <stdint.h>

extern int weft_parts_under_way;
bool under_way_near(uintptr_t low, uintptr_t high);
const char *under_way_wrong(uintptr_t a, bool write);
void under_way_forget(uintptr_t low, uintptr_t high);
void under_way_end(void);

#endif
