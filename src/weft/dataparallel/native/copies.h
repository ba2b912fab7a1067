/* Copies of a replicated array that differ. */
#ifndef WEFT_CHECK_COPIES_H
#define WEFT_CHECK_COPIES_H

#include <stdbool.h>
#include <stdint.h>

struct detail;
struct object;
void note_writers_of_copies(struct object *object);
bool has_value_from_this_processor(const struct object *object, uintptr_t address);
void copies_forget(struct object *object);
bool save_earlier_copy_value(const struct detail *detail);
void report_differing_copies(void);

#endif
