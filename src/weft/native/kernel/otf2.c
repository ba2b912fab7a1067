/* Writes rows of numbers as OTF2 events. The library is the user's: its functions come as pointers, in the order of
 * the kinds, so that nothing is linked and no header of OTF2 is needed. src/weft/export/otf2/rank_records.py makes the
 * rows; a test holds the two against each other. */
#include "otf2.h"
#include "ops.h"

/* The functions of OTF2_EvtWriter.h that differ in their parameters behind (writer, attributes, time). */
typedef int plain(void *, void *, uint64_t);
typedef int with_ref(void *, void *, uint64_t, uint32_t);
typedef int with_id(void *, void *, uint64_t, uint64_t);
typedef int message(void *, void *, uint64_t, uint32_t, uint32_t, uint32_t, uint64_t);
typedef int imessage(void *, void *, uint64_t, uint32_t, uint32_t, uint32_t, uint64_t, uint64_t);
typedef int collective_end(void *, void *, uint64_t, uint8_t, uint32_t, uint32_t, uint64_t, uint64_t);
typedef int collective_complete(void *, void *, uint64_t, uint8_t, uint32_t, uint32_t, uint64_t, uint64_t, uint64_t);
typedef int rma_end(void *, void *, uint64_t, uint8_t, uint32_t, uint32_t, uint32_t, uint64_t, uint64_t);
typedef int rma_transfer(void *, void *, uint64_t, uint32_t, uint32_t, uint64_t, uint64_t);
typedef int rma_atomic(void *, void *, uint64_t, uint32_t, uint32_t, uint8_t, uint64_t, uint64_t, uint64_t);
typedef int rma_complete(void *, void *, uint64_t, uint32_t, uint64_t);
typedef int rma_lock(void *, void *, uint64_t, uint32_t, uint32_t, uint64_t, uint8_t);
typedef int rma_unlock(void *, void *, uint64_t, uint32_t, uint32_t, uint64_t);

/* Write one event with the OTF2 function for its kind. Return 0, or OTF2's error. */
static int write_row(const struct weft_otf2 *target, void *writer, const struct weft_otf2_row *row) {
    void *function = target->write[row->kind];
    switch (row->kind) {
    case ENTER:
        if (row->y != NONE && target->site(target->list, target->attribute, row->y)) return -1;
        return ((with_ref *)function)(writer, row->y != NONE ? target->list : NULL, row->time, row->x);
    case LEAVE:
    case RMA_WIN_CREATE:
    case RMA_WIN_DESTROY: return ((with_ref *)function)(writer, NULL, row->time, row->x);
    case SEND:
    case RECV: return ((message *)function)(writer, NULL, row->time, row->x, row->y, row->z, row->a);
    case ISEND:
    case IRECV: return ((imessage *)function)(writer, NULL, row->time, row->x, row->y, row->z, row->a, row->id);
    case ISEND_COMPLETE:
    case IRECV_REQUEST:
    case COLLECTIVE_REQUEST: return ((with_id *)function)(writer, NULL, row->time, row->id);
    case COLLECTIVE_BEGIN:
    case RMA_COLLECTIVE_BEGIN: return ((plain *)function)(writer, NULL, row->time);
    case COLLECTIVE_END:
        return ((collective_end *)function)(writer, NULL, row->time, row->small, row->x, row->y, row->a, row->b);
    case COLLECTIVE_COMPLETE:
        return ((collective_complete *)function)(writer, NULL, row->time, row->small, row->x, row->y, row->a, row->b,
                                                 row->id);
    case RMA_COLLECTIVE_END:
        return ((rma_end *)function)(writer, NULL, row->time, row->small, row->z, row->x, row->y, row->a, row->b);
    case RMA_PUT:
    case RMA_GET: return ((rma_transfer *)function)(writer, NULL, row->time, row->x, row->y, row->a, row->id);
    case RMA_ATOMIC:
        return ((rma_atomic *)function)(writer, NULL, row->time, row->x, row->y, row->small, row->a, row->b, row->id);
    case RMA_COMPLETE: return ((rma_complete *)function)(writer, NULL, row->time, row->x, row->id);
    case RMA_REQUEST_LOCK:
    case RMA_ACQUIRE_LOCK: return ((rma_lock *)function)(writer, NULL, row->time, row->x, row->y, row->id, row->small);
    case RMA_RELEASE_LOCK: return ((rma_unlock *)function)(writer, NULL, row->time, row->x, row->y, row->id);
    default: return -1;
    }
}

/* Write rows as OTF2 events. Return how many were written; fewer than `count` if OTF2 reported an error. */
uint64_t weft_write_otf2(const struct weft_otf2 *target, void *writer, const struct weft_otf2_row *rows,
                         uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (write_row(target, writer, &rows[i])) return i;
    return count;
}
