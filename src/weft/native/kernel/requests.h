/* requests.c as Python calls it. */
#ifndef WEFT_REQUESTS_H
#define WEFT_REQUESTS_H

#include "ops.h"

struct weft_completions;

EXPORT void weft_take_completions(struct weft_completions *completions, int64_t *request, int64_t *event);

/* The requests that waits and tests reported as complete, in program order; NULL without memory. The caller takes them
 * (weft_take_completions), which frees them. */
EXPORT struct weft_completions *weft_find_completions(const struct weft_extract_input *input, uint64_t *count);

#define ACCESS_MADE 1u   /* reads or writes a buffer */
#define ACCESS_WRITES 2u
#define ACCESS_PENDING 4u /* until its request is complete */
#define ACCESS_SHORT 8u  /* one whose completion was not seen may have been complete at once */
#define ACCESS_COMPLETES 16u /* no access: a completion */

struct weft_buffers {
    const struct weft_event *events;
    uint64_t count;
    const uint8_t *sort;   /* ACCESS_... by function, 65,536 */
    const uint64_t *solid; /* bytes of a datatype without gaps by id, else 0 */
    uint64_t types;
    const uint32_t *done; /* by request, from `first` on, what completed it first or freed it; NONE for none */
    uint64_t first, requests;
};

/* Where each access of the rank begins, ends and lies, in program order. Left out: those of nobody, that failed, without an
 * address or a size. Returns their number; the arrays have room for all that the functions promise. */
EXPORT uint64_t weft_find_buffer_accesses(const struct weft_buffers *buffers, int64_t *begin, int64_t *end,
                                          uint64_t *low, uint64_t *high, uint8_t *writes);

#endif
