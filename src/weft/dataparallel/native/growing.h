/* Arrays that grow: `room` says for how many elements there is room. Without memory for more the program ends. */
#ifndef WEFT_CHECK_GROWING_H
#define WEFT_CHECK_GROWING_H

#include <stdlib.h>
#include <string.h>

/* Return an array with room for one element more than `used`; its room doubles, beginning with `first_room`. Ends the
 * program if there is no memory. */
static inline void *grow_array(void *array, size_t used, size_t *room, size_t element_size, size_t first_room) {
    if (used < *room) return array;
    *room = *room ? 2 * *room : first_room;
    array = realloc(array, *room * element_size);
    if (!array) abort();
    return array;
}

/* Return an array that has an element with this index; new elements are zero. Ends the program if there is no
 * memory. */
static inline void *grow_array_to_index(void *array, size_t index, size_t *room, size_t element_size) {
    if (index < *room) return array;
    size_t more = 2 * index + 64;
    array = realloc(array, more * element_size);
    if (!array) abort();
    memset((char *)array + *room * element_size, 0, (more - *room) * element_size);
    *room = more;
    return array;
}

#define GROW(array, count, room, first) ((array) = grow_array((array), (count), &(room), sizeof *(array), (first)))
#define GROW_TO(array, number, room) ((array) = grow_array_to_index((array), (number), &(room), sizeof *(array)))

#endif
