/* Copies of a replicated array that differ. */
#ifndef WEFT_CHECK_COPIES_H
#define WEFT_CHECK_COPIES_H

#include <stdbool.h>
#include <stdint.h>

struct detail;
struct object;
void copies_note_writers(struct object *object);
bool copies_has_value_here(const struct object *object, uintptr_t address);
void copies_forget(struct object *object);
bool copies_save_earlier_value(const struct detail *detail);
void copies_report_differences(void);

#endif
