/* Blocks of the heap. */
#ifndef WEFT_CHECK_BLOCKS_H
#define WEFT_CHECK_BLOCKS_H

#include "objects.h"

#define NAMED 4096 /* blocks of the heap that are at least so long are objects from the beginning */
void blocks_note_new_block(void);
bool find_heap_block(uintptr_t address, uintptr_t *low, uintptr_t *high);
struct object *make_object_of_heap_block(uintptr_t address, size_t access_size);
void block_set_plain_shape(struct object *object, size_t access_size);

#endif
