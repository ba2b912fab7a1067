/* Arrays that grow: `room` says for how many elements there is room. Without memory for more the program ends. */
#ifndef WEFT_CHECK_GROWING_H
#define WEFT_CHECK_GROWING_H

#include <stdlib.h>
#include <string.h>

/* The array, with room for one more than `count`: it doubles, from `first` on. */
static inline void *grown(void *array, size_t count, size_t *room, size_t size, size_t first) {
    if (count < *room) return array;
    *room = *room ? 2 * *room : first;
    array = realloc(array, *room * size);
    if (!array) abort();
    return array;
}

/* The array, with an element of a number; new elements are zero. */
static inline void *grown_to(void *array, size_t number, size_t *room, size_t size) {
    if (number < *room) return array;
    size_t more = 2 * number + 64;
    array = realloc(array, more * size);
    if (!array) abort();
    memset((char *)array + *room * size, 0, (more - *room) * size);
    *room = more;
    return array;
}

#define GROW(array, count, room, first) ((array) = grown((array), (count), &(room), sizeof *(array), (first)))
#define GROW_TO(array, number, room) ((array) = grown_to((array), (number), &(room), sizeof *(array)))

#endif
