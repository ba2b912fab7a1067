/* What the files of the capture share. All of it is called with the lock held, but for what programs call. */
#ifndef WEFT_VALUE_CAPTURE_H
#define WEFT_VALUE_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/weft_array.h"
#include "rules.h"
#include "value_format.h"

struct place {
    int kind;
    uint32_t line, name; /* `name`: the first place of this kind and name */
    char *text, *file, *function;
    struct weft_rule own, around;
    uint64_t times;
    uint64_t *previous; /* hashes of the blocks that were kept last, `blocks` of them, of an array of `elements` */
    uint64_t blocks, elements;
    bool complained;
    uint32_t next; /* of the same bucket */
};

/* From 1 on; they move when one is added. */
extern struct place *weft_places;
extern uint32_t weft_place_count;

/* places.c: the place's number, 0 where there is no room for it. A new one is written down. */
uint32_t weft_find_or_add_place(uint16_t thread, int kind, const char *name, const char *file, uint32_t line,
                                const char *function);
uint32_t weft_find_namesake(int kind, const char *name);
void weft_report_problem(uint16_t thread, uint32_t place, const char *what);
void weft_write_record(uint16_t thread, int kind, uint32_t place, const void *body, size_t byte_count);

/* keep.c: why an array cannot be taken, NULL where it can; and taking it. */
const char *weft_find_refusal(const struct weft_array *array);
void weft_keep_probe(struct place *place, struct weft_value_probe *probe, const struct weft_array *array, int level);

#endif
