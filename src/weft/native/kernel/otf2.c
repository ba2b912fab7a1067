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

static int write_row(const struct weft_otf2 *to, void *w, const struct weft_otf2_row *r) {
    void *f = to->write[r->kind];
    switch (r->kind) {
    case ENTER:
        if (r->y != NONE && to->site(to->list, to->attribute, r->y)) return -1;
        return ((with_ref *)f)(w, r->y != NONE ? to->list : NULL, r->time, r->x);
    case LEAVE:
    case RMA_WIN_CREATE:
    case RMA_WIN_DESTROY: return ((with_ref *)f)(w, NULL, r->time, r->x);
    case SEND:
    case RECV: return ((message *)f)(w, NULL, r->time, r->x, r->y, r->z, r->a);
    case ISEND:
    case IRECV: return ((imessage *)f)(w, NULL, r->time, r->x, r->y, r->z, r->a, r->id);
    case ISEND_COMPLETE:
    case IRECV_REQUEST:
    case COLLECTIVE_REQUEST: return ((with_id *)f)(w, NULL, r->time, r->id);
    case COLLECTIVE_BEGIN:
    case RMA_COLLECTIVE_BEGIN: return ((plain *)f)(w, NULL, r->time);
    case COLLECTIVE_END: return ((collective_end *)f)(w, NULL, r->time, r->small, r->x, r->y, r->a, r->b);
    case COLLECTIVE_COMPLETE:
        return ((collective_complete *)f)(w, NULL, r->time, r->small, r->x, r->y, r->a, r->b, r->id);
    case RMA_COLLECTIVE_END: return ((rma_end *)f)(w, NULL, r->time, r->small, r->z, r->x, r->y, r->a, r->b);
    case RMA_PUT:
    case RMA_GET: return ((rma_transfer *)f)(w, NULL, r->time, r->x, r->y, r->a, r->id);
    case RMA_ATOMIC: return ((rma_atomic *)f)(w, NULL, r->time, r->x, r->y, r->small, r->a, r->b, r->id);
    case RMA_COMPLETE: return ((rma_complete *)f)(w, NULL, r->time, r->x, r->id);
    case RMA_REQUEST_LOCK:
    case RMA_ACQUIRE_LOCK: return ((rma_lock *)f)(w, NULL, r->time, r->x, r->y, r->id, r->small);
    case RMA_RELEASE_LOCK: return ((rma_unlock *)f)(w, NULL, r->time, r->x, r->y, r->id);
    default: return -1;
    }
}

uint64_t weft_otf2_write(const struct weft_otf2 *to, void *writer, const struct weft_otf2_row *rows, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (write_row(to, writer, &rows[i])) return i;
    return count;
}
