/* Copies of a replicated array that differ. */
#ifndef WEFT_CHECK_COPIES_H
#define WEFT_CHECK_COPIES_H

#include <stdbool.h>
#include <stdint.h>

struct detail;
struct object;
void copies_keep(struct object *o);
bool copies_own(const struct object *o, uintptr_t a);
void copies_forget(struct object *o);
bool copies_again(const struct detail *d);
void copies_compare(void);

#endif
