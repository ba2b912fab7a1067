/* An array that grows: `room` for elements doubles where `count` of them fill it. */
#ifndef WEFT_CHECK_GROWING_H
#define WEFT_CHECK_GROWING_H

#include <stdlib.h>

/* The array, with room for one more; `first`: for so many at once. There is always room: without memory the program ends. */
static inline void *grown(void *array, size_t count, size_t *room, size_t size, size_t first) {
    if (count < *room) return array;
    *room = *room ? 2 * *room : first;
    array = realloc(array, *room * size);
    if (!array) abort();
    return array;
}

#define GROW(array, count, room, first) ((array) = grown((array), (count), &(room), sizeof *(array), (first)))

#endif
