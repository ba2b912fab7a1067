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
    AS_THEY_LIE = 1, /* element behind element, without gaps */
    PACKED = 2,
    LONG_DOUBLES = 3, /* as they lie, but of each number of 16 bytes 6 are not part of it (x87) */
    NOT_AT_ALL = 4,
};
struct shape {
    uint32_t id;
    enum manner manner;
    int64_t size, extent, true_lb, true_extent;
};

struct weft_hashing {
    XXH3_state_t state;
    struct shape shapes[SHAPES];
    uint8_t *space, *spread; /* spread: elements of a type with gaps */
    size_t room, spread_room;
    uint8_t kept[WEFT_CONTENT_MOST]; /* what the last hash is of, where that was asked for */
};

/* Returns the space in which a thread computes hashes, made at first use; NULL without memory. */
static struct weft_hashing *hashing_of(struct weft_thread *thread) {
    if (LIKELY(thread->hashing != NULL)) return thread->hashing;
    void *made = NULL;
    if (posix_memalign(&made, 64, (sizeof(struct weft_hashing) + 63) / 64 * 64)) return NULL;
    struct weft_hashing *h = memset(made, 0, sizeof *h);
    h->space = malloc(CHUNK);
    h->room = h->space ? CHUNK : 0;
    return thread->hashing = h;
}

/* ---- datatypes ---- */
#define X87 (sizeof(long double) == 16 && __LDBL_MANT_DIG__ == 64)

static bool of_long_doubles(MPI_Datatype type) {
    return X87 && (type == MPI_LONG_DOUBLE || type == MPI_C_LONG_DOUBLE_COMPLEX);
}

/* What the types that `type` is made of come to: whether they lie without gaps one behind the other, and whether all of
 * their bytes mean something. */
struct made_of {
    bool dense, whole;
};

/* Finds out whether a datatype has gaps, and whether all its bytes can be hashed. */
static WEFT_ASKS struct made_of look_into(MPI_Datatype type, int depth) {
    int ints = 0, addresses = 0, types = 0, combiner = MPI_COMBINER_NAMED;
    struct made_of found = {.dense = false, .whole = true};
    if (REAL(MPI_Type_get_envelope)(type, &ints, &addresses, &types, &combiner) != MPI_SUCCESS) return found;
    if (!types) {
        MPI_Aint lb = 0, extent = 0;
        int size = 0;
        bool known = REAL(MPI_Type_size)(type, &size) == MPI_SUCCESS &&
                     REAL(MPI_Type_get_extent)(type, &lb, &extent) == MPI_SUCCESS;
        bool padded = X87 && type == MPI_LONG_DOUBLE_INT;
        return (struct made_of){known && !lb && size == extent, !of_long_doubles(type) && !padded};
    }
    found.dense = combiner == MPI_COMBINER_CONTIGUOUS || combiner == MPI_COMBINER_DUP;
    size_t n = (size_t)ints, m = (size_t)addresses, k = (size_t)types;
    void *space = depth < DEEPEST ? malloc(m * sizeof(MPI_Aint) + k * sizeof(MPI_Datatype) + n * sizeof(int)) : NULL;
    if (!space) return (struct made_of){false, false};
    MPI_Aint *a = space;
    MPI_Datatype *t = (MPI_Datatype *)(a + m);
    int *i = (int *)(t + k);
    if (REAL(MPI_Type_get_contents)(type, ints, addresses, types, i, a, t) != MPI_SUCCESS) k = 0;
    for (size_t j = 0; j < k; j++) {
        struct made_of inner = look_into(t[j], depth + 1);
        found.dense &= inner.dense;
        found.whole &= inner.whole;
        int of = MPI_COMBINER_NAMED, no = 0;
        /* MPI-4.1, 5.1.13: derived types that come out of get_contents are to be freed */
        if (REAL(MPI_Type_get_envelope)(t[j], &no, &no, &types, &of) == MPI_SUCCESS && of != MPI_COMBINER_NAMED &&
            of != MPI_COMBINER_F90_REAL && of != MPI_COMBINER_F90_COMPLEX && of != MPI_COMBINER_F90_INTEGER)
            REAL(MPI_Type_free)(&t[j]);
    }
    free(space);
    return found;
}

/* Finds out how elements of a datatype are hashed: as they lie in memory, without the padding of long doubles, packed
 * by MPI, or not at all. */
static WEFT_COLD void shape_learn(struct shape *shape, uint32_t id, MPI_Datatype type) {
    MPI_Count size = 0, lb = 0, extent = 0, true_lb = 0, true_extent = 0;
    *shape = (struct shape){.id = id, .manner = NOT_AT_ALL};
    if (REAL(MPI_Type_size_x)(type, &size) != MPI_SUCCESS || size <= 0 || size == MPI_UNDEFINED ||
        REAL(MPI_Type_get_extent_x)(type, &lb, &extent) != MPI_SUCCESS || extent == MPI_UNDEFINED ||
        REAL(MPI_Type_get_true_extent_x)(type, &true_lb, &true_extent) != MPI_SUCCESS || true_extent <= 0)
        return;
    shape->size = (int64_t)size;
    shape->extent = (int64_t)extent;
    shape->true_lb = (int64_t)true_lb;
    shape->true_extent = (int64_t)true_extent;
    if (of_long_doubles(type)) {
        shape->manner = LONG_DOUBLES;
        return;
    }
    struct made_of of = look_into(type, 0);
    if (!of.whole) return;
    bool dense = of.dense && !lb && size == extent;
    shape->manner = dense ? AS_THEY_LIE : size <= INT32_MAX ? PACKED : NOT_AT_ALL;
}

/* Returns how elements of a datatype are hashed; it is found out once for each type. */
static const struct shape *shape_of(struct weft_hashing *h, MPI_Datatype type) {
    uint32_t id = weft_find_object_id(weft_self, WEFT_CLASS_DATATYPE, (uintptr_t)type);
    struct shape *shape = &h->shapes[id % SHAPES];
    if (UNLIKELY(shape->id != id || !shape->manner)) shape_learn(shape, id, type);
    return shape;
}

/* ---- bytes ---- */
/* Of each number of 16 bytes the 10 that count. */
static size_t without_padding(uint8_t *bytes, size_t n) {
    enum { LIES = 16, COUNTS = 10 };
    size_t k = 0;
    for (size_t at = 0; at + LIES <= n; at += LIES, k += COUNTS) memmove(bytes + k, bytes + at, COUNTS);
    return k;
}

/* Adds the bytes of a buffer without gaps to the hash; false if they cannot be read. */
static bool hash_memory(struct weft_hashing *h, const struct weft_part *part, bool padded, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += CHUNK) {
        size_t n = bytes - at < CHUNK ? (size_t)(bytes - at) : (size_t)CHUNK;
        const char *from = (const char *)part->buffer + at;
        if (!padded && weft_is_on_own_stack(from, n)) {
            XXH3_64bits_update(&h->state, from, n);
            continue;
        }
        if (!weft_copy_buffer(h->space, from, n)) return false;
        XXH3_64bits_update(&h->state, h->space, padded ? without_padding(h->space, n) : n);
    }
    return true;
}

/* As many elements as lie from `from` on, copied; where they would lie if they began there. NULL: they cannot be read. Those
 * that spread wider than WIDEST are left where they lie. */
static const char *elements_copied(struct weft_hashing *h, const struct shape *shape, const char *from, int64_t many) {
    int64_t between = (many - 1) * shape->extent, first = shape->true_lb + (between < 0 ? between : 0);
    size_t n = (size_t)((between < 0 ? -between : between) + shape->true_extent);
    if (n > WIDEST) return from;
    if (n > h->spread_room) {
        uint8_t *larger = realloc(h->spread, n);
        if (!larger) return NULL;
        h->spread = larger;
        h->spread_room = n;
    }
    if (!weft_copy_buffer(h->spread, (const void *)((uintptr_t)from + (uintptr_t)first), n)) return NULL;
    return (const char *)((uintptr_t)h->spread - (uintptr_t)first);
}

/* Of a copy, and of a type that MPI has told the shape of: nothing of the program's can be wrong any more. */
static WEFT_ASKS bool pack_copy(const void *from, int many, MPI_Datatype type, void *to, int room, int *filled) {
    return REAL(MPI_Pack)(from, many, type, to, room, filled, MPI_COMM_SELF) == MPI_SUCCESS;
}

/* Adds the elements of a buffer with gaps to the hash, packed one by one; false if that fails. */
static bool hash_packed(struct weft_hashing *h, const struct weft_part *part, const struct shape *shape,
                        uint64_t bytes) {
    if ((size_t)shape->size > h->room) {
        uint8_t *larger = realloc(h->space, (size_t)shape->size);
        if (!larger) return false;
        h->space = larger;
        h->room = (size_t)shape->size;
    }
    int64_t step = (int64_t)h->room / shape->size;
    if (step > INT32_MAX / shape->size) step = INT32_MAX / shape->size;
    int64_t spread = shape->extent < 0 ? -shape->extent : shape->extent, near = spread ? CHUNK / spread : step;
    if (step > near) step = near ? near : 1;
    for (int64_t k = 0; k < part->count && bytes; k += step) {
        int many = (int)(part->count - k < step ? part->count - k : step), filled = 0;
        const char *lies = (const char *)part->buffer + k * shape->extent;
        const char *from = elements_copied(h, shape, lies, many);
        int room = (int)(many * shape->size);
        if (!from) return false;
        bool packed = from != lies ? pack_copy(from, many, part->type, h->space, room, &filled)
                                   : REAL(MPI_Pack)(from, many, part->type, h->space, room, &filled, MPI_COMM_SELF) ==
                                         MPI_SUCCESS;
        if (!packed || filled != room) return false; /* an MPI that packs more than the bytes: no hash */
        uint64_t n = (uint64_t)filled < bytes ? (uint64_t)filled : bytes;
        XXH3_64bits_update(&h->state, h->space, (size_t)n);
        bytes -= n;
    }
    return true;
}

/* The first bytes of a part that lies without gaps. */
static uint32_t keep_content(struct weft_hashing *h, const struct weft_part *part, uint64_t bytes) {
    size_t n = bytes < WEFT_CONTENT_MOST ? (size_t)bytes : WEFT_CONTENT_MOST;
    return n && weft_copy_buffer(h->kept, part->buffer, n) ? (uint32_t)n : 0;
}

/* Returns the hash of the buffers that a call sends (or, `sent` false, receives), of at most `most` bytes. */
struct weft_hash weft_hash_buffers(const struct weft_part *parts, int64_t n, bool sent, uint64_t most, bool keep) {
    WEFT_WORK(WEFT_HASHES);
    struct weft_hash made = {.known = false};
    struct weft_hashing *h = hashing_of(weft_self);
    if (!h || !h->space) return made;
    bool any = false;
    XXH3_64bits_reset(&h->state);
    for (int64_t i = 0; i < n; i++) {
        const struct weft_part *part = &parts[i];
        if (sent ? part->written && !part->brought : !part->written) continue;
        const struct shape *shape = shape_of(h, part->type);
        uint64_t bytes = (uint64_t)shape->size * (uint64_t)part->count;
        if (bytes > most) bytes = most;
        if (shape->manner == NOT_AT_ALL) return made;
        if (shape->manner == PACKED ? !hash_packed(h, part, shape, bytes)
                                    : !hash_memory(h, part, shape->manner == LONG_DOUBLES, bytes))
            return made;
        if (keep && !any && shape->manner == AS_THEY_LIE) made.kept = keep_content(h, part, bytes);
        made.bytes += bytes;
        most -= bytes;
        any = true;
    }
    made.known = any;
    if (any) made.hash = XXH3_64bits_digest(&h->state);
    return made;
}

/* ---- rows ---- */
/* Writes the bytes of a message into the record; false if there is no room. */
static bool keep_bytes(uint32_t n) {
    struct weft_stream *s = &weft_self->contents;
    uint32_t room = (n + 7) / 8 * 8;
    if (!s->base && !weft_stream_open(weft_the_record, s, WEFT_STREAM_CONTENTS, (int)weft_self->slot)) return false;
    if (!weft_stream_fits(s, room)) return false;
    memcpy(s->next, weft_self->hashing->kept, n);
    memset(s->next + n, 0, room - n);
    s->next += room;
    weft_stream_publish(s);
    return true;
}

/* Writes a hash into the record: which side of which call, and of which request. */
void weft_record_hash(const struct weft_hash *hash, enum weft_hash_side side, struct weft_moment at, uint32_t request) {
    WEFT_WORK(WEFT_HASHES);
    struct weft_stream *s = &weft_self->hashes;
    if (!hash->known) return;
    if (!s->base && !weft_stream_open(weft_the_record, s, WEFT_STREAM_HASHES, (int)weft_self->slot))
        weft_stop_recording();
    if (!s->base || !weft_stream_fits(s, sizeof(struct weft_hashed))) return;
    *(struct weft_hashed *)s->next = (struct weft_hashed){.hash = hash->hash,
                                                          .bytes = hash->bytes,
                                                          .event = at.event,
                                                          .request = request,
                                                          .thread = (uint16_t)at.thread,
                                                          .side = (uint8_t)side,
                                                          .kept = hash->kept && keep_bytes(hash->kept)};
    s->next += sizeof(struct weft_hashed);
    weft_stream_publish(s);
}

/* Returns the newest call of this thread: its index in the record and the thread's slot. */
struct weft_moment weft_find_current_call(void) {
    const struct weft_stream *events = &weft_self->events;
    return (struct weft_moment){(uint64_t)(events->next - events->base) / sizeof(struct weft_event) - 1,
                                weft_self->slot};
}

/* Hashes what a request received, at its completion. */
void weft_hash_received_message(struct weft_parts *parts, uint32_t request, const MPI_Status *status) {
    if (!parts->active) return; /* a persistent one that was not started */
    parts->active = false;
    if (status && weft_is_status_cancelled(status)) return;
    struct weft_hash hash = weft_hash_buffers(parts->each, parts->n, false,
                                              status ? weft_read_status_bytes(status) : UINT64_MAX, parts->keep);
    weft_record_hash(&hash, WEFT_HASH_RECEIVED, parts->at, request);
}

/* Begins to hash messages if the run asks for it. */
void weft_begin_hashing(void) {
    const char *wanted = getenv("WEFT_INTERNAL_HASH");
    if (!wanted || strcmp(wanted, "1") || weft_is_left_out(WEFT_HASHES)) return;
    weft_insert_access_hooks();
    weft_hashing = 1;
}
