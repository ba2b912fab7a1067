/* Hashes of what messages hold (`weft run --hash-messages`), as rows of the HASHES stream.
 *
 * The buffers of a call are its parts (access.h). What a call sends is hashed before MPI gets it, what it receives when MPI
 * says that it is there, up to the bytes that came. A datatype of the program's own is packed before, so that a message has
 * one hash whatever types the two ends have for it. XXH3, 64 bits.
 *
 * The kernel reads them (peek.h), but for what lies on the thread's own stack: a buffer that is not memory of the host, or
 * not there, has no hash, and harms nobody. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include "access.h"
#include "peek.h"
#include "xxhash.h"

volatile int weft_hashing;

enum { CHUNK = 64 << 10, SHAPES = 64, DEEPEST = 16, WIDEST = 64 << 20 };

/* How the bytes of a datatype are taken. */
enum manner {
    AS_THEY_LIE = 1, /* element after element, without gaps */
    PACKED = 2,
    LONG_DOUBLES = 3, /* as they lie, but of each number of 16 bytes 6 are not part of it (x87) */
    NOT_AT_ALL = 4,
};
struct type_hashing {
    uint32_t id;
    enum manner manner;
    int64_t size, extent, true_lb, true_extent;
};

struct weft_hashing {
    XXH3_state_t state;
    struct type_hashing shapes[SHAPES];
    uint8_t *space, *spread; /* spread: elements of a type with gaps */
    size_t room, spread_room;
    uint8_t kept[WEFT_CONTENT_MOST]; /* what the last hash is of, where that was asked for */
};

/* Return the space in which a thread computes hashes, made at first use; NULL without memory. */
static struct weft_hashing *find_or_make_hashing_space(struct weft_thread *thread) {
    if (LIKELY(thread->hashing != NULL)) return thread->hashing;
    void *memory = NULL;
    if (posix_memalign(&memory, 64, (sizeof(struct weft_hashing) + 63) / 64 * 64)) return NULL;
    struct weft_hashing *hashing = memset(memory, 0, sizeof *hashing);
    hashing->space = malloc(CHUNK);
    hashing->room = hashing->space ? CHUNK : 0;
    return thread->hashing = hashing;
}

/* ---- datatypes ---- */
#define X87 (sizeof(long double) == 16 && __LDBL_MANT_DIG__ == 64)

/* Return whether a predefined datatype consists of long doubles of x87, whose padding does not count. */
static bool has_long_doubles(MPI_Datatype type) {
    return X87 && (type == MPI_LONG_DOUBLE || type == MPI_C_LONG_DOUBLE_COMPLEX);
}

/* What the types that `type` is made of come to: whether they lie without gaps one after the other, and whether all of
 * their bytes mean something. */
struct type_layout {
    bool dense, whole;
};

/* Return whether the elements of a datatype lie without gaps, and whether all of their bytes have a meaning, by the
 * types that it is made of. `depth`: in how many types it is nested. */
static WEFT_ASKS struct type_layout find_type_layout(MPI_Datatype type, int depth) {
    int ints = 0, addresses = 0, types = 0, combiner = MPI_COMBINER_NAMED;
    struct type_layout found = {.dense = false, .whole = true};
    if (REAL(MPI_Type_get_envelope)(type, &ints, &addresses, &types, &combiner) != MPI_SUCCESS) return found;
    if (!types) {
        MPI_Aint lb = 0, extent = 0;
        int size = 0;
        bool known = REAL(MPI_Type_size)(type, &size) == MPI_SUCCESS &&
                     REAL(MPI_Type_get_extent)(type, &lb, &extent) == MPI_SUCCESS;
        bool padded = X87 && type == MPI_LONG_DOUBLE_INT;
        return (struct type_layout){known && !lb && size == extent, !has_long_doubles(type) && !padded};
    }
    found.dense = combiner == MPI_COMBINER_CONTIGUOUS || combiner == MPI_COMBINER_DUP;
    size_t int_count = (size_t)ints, address_count = (size_t)addresses, type_count = (size_t)types;
    void *space =
        depth < DEEPEST
            ? malloc(address_count * sizeof(MPI_Aint) + type_count * sizeof(MPI_Datatype) + int_count * sizeof(int))
            : NULL;
    if (!space) return (struct type_layout){false, false};
    MPI_Aint *address_arguments = space;
    MPI_Datatype *inner_types = (MPI_Datatype *)(address_arguments + address_count);
    int *int_arguments = (int *)(inner_types + type_count);
    if (REAL(MPI_Type_get_contents)(type, ints, addresses, types, int_arguments, address_arguments, inner_types) !=
        MPI_SUCCESS)
        type_count = 0;
    for (size_t j = 0; j < type_count; j++) {
        struct type_layout inner = find_type_layout(inner_types[j], depth + 1);
        found.dense &= inner.dense;
        found.whole &= inner.whole;
        int inner_combiner = MPI_COMBINER_NAMED, unused = 0;
        /* MPI-4.1, 5.1.13: derived types that come out of get_contents are to be freed */
        if (REAL(MPI_Type_get_envelope)(inner_types[j], &unused, &unused, &types, &inner_combiner) == MPI_SUCCESS &&
            inner_combiner != MPI_COMBINER_NAMED && inner_combiner != MPI_COMBINER_F90_REAL &&
            inner_combiner != MPI_COMBINER_F90_COMPLEX && inner_combiner != MPI_COMBINER_F90_INTEGER)
            REAL(MPI_Type_free)(&inner_types[j]);
    }
    free(space);
    return found;
}

/* Find out how elements of a datatype are hashed: as they lie in memory, without the padding of long doubles, packed by
 * MPI, or not at all. */
static WEFT_COLD void determine_type_hashing(struct type_hashing *hashed_type, uint32_t id, MPI_Datatype type) {
    MPI_Count size = 0, lb = 0, extent = 0, true_lb = 0, true_extent = 0;
    *hashed_type = (struct type_hashing){.id = id, .manner = NOT_AT_ALL};
    if (REAL(MPI_Type_size_x)(type, &size) != MPI_SUCCESS || size <= 0 || size == MPI_UNDEFINED ||
        REAL(MPI_Type_get_extent_x)(type, &lb, &extent) != MPI_SUCCESS || extent == MPI_UNDEFINED ||
        REAL(MPI_Type_get_true_extent_x)(type, &true_lb, &true_extent) != MPI_SUCCESS || true_extent <= 0)
        return;
    hashed_type->size = (int64_t)size;
    hashed_type->extent = (int64_t)extent;
    hashed_type->true_lb = (int64_t)true_lb;
    hashed_type->true_extent = (int64_t)true_extent;
    if (has_long_doubles(type)) {
        hashed_type->manner = LONG_DOUBLES;
        return;
    }
    struct type_layout layout = find_type_layout(type, 0);
    if (!layout.whole) return;
    bool dense = layout.dense && !lb && size == extent;
    hashed_type->manner = dense ? AS_THEY_LIE : size <= INT32_MAX ? PACKED : NOT_AT_ALL;
}

/* Return how elements of a datatype are hashed; it is found out once for each type. */
static const struct type_hashing *get_type_hashing(struct weft_hashing *hashing, MPI_Datatype type) {
    uint32_t id = weft_find_object_id(weft_self, WEFT_CLASS_DATATYPE, (uintptr_t)type);
    struct type_hashing *hashed_type = &hashing->shapes[id % SHAPES];
    if (UNLIKELY(hashed_type->id != id || !hashed_type->manner)) determine_type_hashing(hashed_type, id, type);
    return hashed_type;
}

/* ---- bytes ---- */
/* Move the 10 bytes that count of each number of 16 bytes together; return how many bytes are left. */
static size_t drop_long_double_padding(uint8_t *bytes, size_t n) {
    enum { LIES = 16, COUNTS = 10 };
    size_t kept_bytes = 0;
    for (size_t index = 0; index + LIES <= n; index += LIES, kept_bytes += COUNTS)
        memmove(bytes + kept_bytes, bytes + index, COUNTS);
    return kept_bytes;
}

/* Add the first `bytes` bytes of a buffer without gaps to the hash; return false if they cannot be read. */
static bool hash_contiguous_buffer(struct weft_hashing *hashing, const struct weft_call_buffer *buffer, bool padded,
                                   uint64_t bytes) {
    for (uint64_t offset = 0; offset < bytes; offset += CHUNK) {
        size_t n = bytes - offset < CHUNK ? (size_t)(bytes - offset) : (size_t)CHUNK;
        const char *from = (const char *)buffer->buffer + offset;
        if (!padded && weft_is_on_own_stack(from, n)) {
            XXH3_64bits_update(&hashing->state, from, n);
            continue;
        }
        if (!weft_copy_buffer(hashing->space, from, n)) return false;
        XXH3_64bits_update(&hashing->state, hashing->space, padded ? drop_long_double_padding(hashing->space, n) : n);
    }
    return true;
}

/* Copy `count` elements of a type with gaps that lie from `from` on. Return where the copy would begin if it lay as the
 * elements do, to be given to MPI_Pack; NULL if they cannot be read. Those that spread wider than WIDEST are left where
 * they lie, and `from` is returned. */
static const char *copy_elements(struct weft_hashing *hashing, const struct type_hashing *hashed_type, const char *from,
                                 int64_t count) {
    int64_t between = (count - 1) * hashed_type->extent, first = hashed_type->true_lb + (between < 0 ? between : 0);
    size_t n = (size_t)((between < 0 ? -between : between) + hashed_type->true_extent);
    if (n > WIDEST) return from;
    if (n > hashing->spread_room) {
        uint8_t *larger = realloc(hashing->spread, n);
        if (!larger) return NULL;
        hashing->spread = larger;
        hashing->spread_room = n;
    }
    if (!weft_copy_buffer(hashing->spread, (const void *)((uintptr_t)from + (uintptr_t)first), n)) return NULL;
    return (const char *)((uintptr_t)hashing->spread - (uintptr_t)first);
}

/* Pack elements that were copied, into `packed`; return whether MPI did. A fault in here is the recorder's (WEFT_ASKS):
 * nothing of the program's can be wrong in a copy. */
static WEFT_ASKS bool pack_copied_elements(const void *from, int count, MPI_Datatype type, void *packed, int room,
                                           int *filled) {
    return REAL(MPI_Pack)(from, count, type, packed, room, filled, MPI_COMM_SELF) == MPI_SUCCESS;
}

/* Add the first `bytes` bytes of a buffer with gaps to the hash, packed by MPI a few elements at a time; return false
 * if that fails. */
static bool hash_buffer_with_gaps(struct weft_hashing *hashing, const struct weft_call_buffer *buffer,
                                  const struct type_hashing *hashed_type, uint64_t bytes) {
    if ((size_t)hashed_type->size > hashing->room) {
        uint8_t *larger = realloc(hashing->space, (size_t)hashed_type->size);
        if (!larger) return false;
        hashing->space = larger;
        hashing->room = (size_t)hashed_type->size;
    }
    int64_t step = (int64_t)hashing->room / hashed_type->size;
    if (step > INT32_MAX / hashed_type->size) step = INT32_MAX / hashed_type->size;
    int64_t spread = hashed_type->extent < 0 ? -hashed_type->extent : hashed_type->extent,
            nearby_count = spread ? CHUNK / spread : step;
    if (step > nearby_count) step = nearby_count ? nearby_count : 1;
    for (int64_t k = 0; k < buffer->count && bytes; k += step) {
        int count = (int)(buffer->count - k < step ? buffer->count - k : step), filled = 0;
        const char *elements = (const char *)buffer->buffer + k * hashed_type->extent;
        const char *from = copy_elements(hashing, hashed_type, elements, count);
        int room = (int)(count * hashed_type->size);
        if (!from) return false;
        bool packed = from != elements ? pack_copied_elements(from, count, buffer->type, hashing->space, room, &filled)
                                       : REAL(MPI_Pack)(from, count, buffer->type, hashing->space, room, &filled,
                                                        MPI_COMM_SELF) == MPI_SUCCESS;
        if (!packed || filled != room) return false; /* an MPI that packs more than the bytes: no hash */
        uint64_t n = (uint64_t)filled < bytes ? (uint64_t)filled : bytes;
        XXH3_64bits_update(&hashing->state, hashing->space, (size_t)n);
        bytes -= n;
    }
    return true;
}

/* Keep the first bytes of a buffer without gaps in the thread's space; return how many. */
static uint32_t keep_contents(struct weft_hashing *hashing, const struct weft_call_buffer *buffer, uint64_t bytes) {
    size_t n = bytes < WEFT_CONTENT_MOST ? (size_t)bytes : WEFT_CONTENT_MOST;
    return n && weft_copy_buffer(hashing->kept, buffer->buffer, n) ? (uint32_t)n : 0;
}

/* Return the hash of those of `n` buffers that a call sends (or, `sent` false, receives), of `most` bytes at most; it
 * is not `known` where a buffer cannot be read or packed. `keep`: also keep the first bytes, for weft_record_hash. */
struct weft_hash weft_hash_buffers(const struct weft_call_buffer *buffers, int64_t n, bool sent, uint64_t most,
                                   bool keep) {
    WEFT_WORK(WEFT_HASHES);
    struct weft_hash result = {.known = false};
    struct weft_hashing *hashing = find_or_make_hashing_space(weft_self);
    if (!hashing || !hashing->space) return result;
    bool any = false;
    XXH3_64bits_reset(&hashing->state);
    for (int64_t i = 0; i < n; i++) {
        const struct weft_call_buffer *hashed = &buffers[i];
        if (sent ? hashed->written && !hashed->brought : !hashed->written) continue;
        const struct type_hashing *hashed_type = get_type_hashing(hashing, hashed->type);
        uint64_t bytes = (uint64_t)hashed_type->size * (uint64_t)hashed->count;
        if (bytes > most) bytes = most;
        if (hashed_type->manner == NOT_AT_ALL) return result;
        if (hashed_type->manner == PACKED
                ? !hash_buffer_with_gaps(hashing, hashed, hashed_type, bytes)
                : !hash_contiguous_buffer(hashing, hashed, hashed_type->manner == LONG_DOUBLES, bytes))
            return result;
        if (keep && !any && hashed_type->manner == AS_THEY_LIE) result.kept = keep_contents(hashing, hashed, bytes);
        result.bytes += bytes;
        most -= bytes;
        any = true;
    }
    result.known = any;
    if (any) result.hash = XXH3_64bits_digest(&hashing->state);
    return result;
}

/* ---- rows ---- */
/* Write the bytes that keep_contents has kept into the record; return false if there is no room. */
static bool record_kept_contents(uint32_t byte_count) {
    struct weft_stream *stream = &weft_self->contents;
    uint32_t room = (byte_count + 7) / 8 * 8;
    if (!stream->base && !weft_stream_open(weft_the_record, stream, WEFT_STREAM_CONTENTS, (int)weft_self->slot))
        return false;
    if (!weft_stream_fits(stream, room)) return false;
    memcpy(stream->next, weft_self->hashing->kept, byte_count);
    memset(stream->next + byte_count, 0, room - byte_count);
    stream->next += room;
    weft_stream_publish(stream);
    return true;
}

/* Write a hash into the record: which side of which call, and of which request (0: none). */
void weft_record_hash(const struct weft_hash *hash, enum weft_hash_side side, struct weft_moment call,
                      uint32_t request) {
    WEFT_WORK(WEFT_HASHES);
    struct weft_stream *stream = &weft_self->hashes;
    if (!hash->known) return;
    if (!stream->base && !weft_stream_open(weft_the_record, stream, WEFT_STREAM_HASHES, (int)weft_self->slot))
        weft_stop_recording();
    if (!stream->base || !weft_stream_fits(stream, sizeof(struct weft_hashed))) return;
    *(struct weft_hashed *)stream->next = (struct weft_hashed){.hash = hash->hash,
                                                               .bytes = hash->bytes,
                                                               .event = call.event,
                                                               .request = request,
                                                               .thread = (uint16_t)call.thread,
                                                               .side = (uint8_t)side,
                                                               .kept = hash->kept && record_kept_contents(hash->kept)};
    stream->next += sizeof(struct weft_hashed);
    weft_stream_publish(stream);
}

/* Return the newest call of this thread: its index in the record and the thread's slot. */
struct weft_moment weft_find_current_call(void) {
    const struct weft_stream *events = &weft_self->events;
    return (struct weft_moment){(uint64_t)(events->next - events->base) / sizeof(struct weft_event) - 1,
                                weft_self->slot};
}

/* Hash and record what a request has received, at its completion. `status`: tells the message's length; NULL: as long
 * as its buffers. */
void weft_hash_received_message(struct weft_request_buffers *buffers, uint32_t request, const MPI_Status *status) {
    if (!buffers->active) return; /* a persistent one that was not started */
    buffers->active = false;
    if (status && weft_is_status_cancelled(status)) return;
    struct weft_hash hash = weft_hash_buffers(buffers->each, buffers->n, false,
                                              status ? weft_read_status_bytes(status) : UINT64_MAX, buffers->keep);
    weft_record_hash(&hash, WEFT_HASH_RECEIVED, buffers->at, request);
}

/* Begin to hash messages if the run asks for it. */
void weft_begin_hashing(void) {
    const char *wanted = getenv("WEFT_INTERNAL_HASH");
    if (!wanted || strcmp(wanted, "1") || weft_is_left_out(WEFT_HASHES)) return;
    weft_insert_access_hooks();
    weft_hashing = 1;
}
