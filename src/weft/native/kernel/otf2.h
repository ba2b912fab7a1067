/* otf2.c as Python calls it. */
#ifndef WEFT_OTF2_H
#define WEFT_OTF2_H

#include "ops.h"

/* The kinds of records. */
enum weft_otf2_kind {
    ENTER,
    LEAVE,
    SEND,
    ISEND,
    ISEND_COMPLETE,
    IRECV_REQUEST,
    RECV,
    IRECV,
    COLLECTIVE_BEGIN,
    COLLECTIVE_END,
    COLLECTIVE_REQUEST,
    COLLECTIVE_COMPLETE,
    RMA_WIN_CREATE,
    RMA_WIN_DESTROY,
    RMA_COLLECTIVE_BEGIN,
    RMA_COLLECTIVE_END,
    RMA_PUT,
    RMA_GET,
    RMA_ATOMIC,
    RMA_COMPLETE,
    RMA_REQUEST_LOCK,
    RMA_ACQUIRE_LOCK,
    RMA_RELEASE_LOCK,
    END,
};

/* 48 bytes: bytes sent and received in `a` and `b`, the number of a request, an operation or a lock in `id`, ranks and
 * references in `x`, `y`, `z`, an operation or a type in `small`. */
struct weft_otf2_row {
    uint64_t time, a, b, id;
    uint32_t x, y, z;
    uint8_t kind, small;
    uint16_t unused;
};

/* Borrowed. `write` by kind, `site` adds a source location to `list` as `attribute`. */
struct weft_otf2 {
    void *const *write;
    int (*site)(void *list, uint32_t attribute, uint32_t site);
    void *list;
    uint32_t attribute;
};

/* Writes the rows with the event writer `writer`; how many were written before OTF2 refused one. */
EXPORT uint64_t weft_write_otf2(const struct weft_otf2 *target, void *writer, const struct weft_otf2_row *rows,
                                uint64_t count);

#endif
