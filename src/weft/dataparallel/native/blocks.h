/* Blocks of the heap. */
#ifndef WEFT_CHECK_BLOCKS_H
#define WEFT_CHECK_BLOCKS_H

#include "objects.h"

#define NAMED 4096 /* blocks of the heap that are at least so long are objects from the beginning */
void blocks_made(void);
bool block_around(uintptr_t a, uintptr_t *low, uintptr_t *high);
struct object *block_object(uintptr_t a, size_t size);
void block_shape(struct object *o, size_t size);

#endif
