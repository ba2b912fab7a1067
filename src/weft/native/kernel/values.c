/* Reads a value trace through once: where its records lie, and a key for each that two runs have in common. */
#include "values.h"

#include <stdlib.h>
#include <string.h>

#include "values/native/hash.h"
#include "values/native/value_format.h"

enum { THREADS = 65536 };

/* The open iterations of a thread: rows, the innermost last. */
struct stack {
    int64_t *rows;
    uint32_t depth, room;
};

struct reader {
    const uint8_t *records;
    struct weft_value_index *index;
    struct weft_value_site *places;
    struct weft_value_iteration *iterations;
    struct weft_value_row *probes;
    uint64_t *problems;
    uint64_t *names; /* by place less 1 */
    uint64_t names_room;
    uint64_t *keys; /* by iteration */
    uint64_t keys_room;
    struct stack *threads;
};

static bool grown(uint64_t **array, uint64_t *room, uint64_t count) {
    if (count < *room) return true;
    uint64_t more = *room ? *room * 2 : 1024;
    void *larger = realloc(*array, more * sizeof **array);
    if (!larger) return false;
    *array = larger;
    *room = more;
    return true;
}

static uint64_t name_hash(uint32_t kind, const char *name) {
    uint64_t h = 14695981039346656037u ^ kind;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 1099511628211u;
    return weft_value_mix(h);
}

static bool place(struct reader *in, const struct weft_value_record *head, uint64_t offset) {
    const struct weft_value_place *body = (const void *)head;
    if (head->bytes < sizeof *body + 8 || head->place != in->index->places + 1) return false;
    const char *texts = (const char *)(body + 1), *end = (const char *)head + head->bytes, *at = texts;
    for (int i = 0; i < 3; i++) {
        at = memchr(at, 0, (size_t)(end - at));
        if (!at++) return false;
    }
    uint64_t row = in->index->places++;
    if (!grown(&in->names, &in->names_room, row)) return false;
    in->names[row] = name_hash(body->kind, texts);
    if (in->places) in->places[row] = (struct weft_value_site){offset, in->names[row]};
    return true;
}

static int64_t innermost(const struct stack *stack) { return stack->depth ? stack->rows[stack->depth - 1] : -1; }

/* The key of what is around; each thread but the first has a root of its own. */
static uint64_t around(const struct reader *in, const struct stack *stack, uint16_t thread) {
    int64_t row = innermost(stack);
    return row < 0 ? weft_value_mix(thread) : in->keys[row];
}

static bool enter(struct reader *in, const struct weft_value_record *head, uint64_t offset) {
    const struct weft_value_scope *body = (const void *)head;
    struct stack *stack = &in->threads[head->thread];
    if (head->bytes < sizeof *body) return false;
    if (stack->depth == stack->room) {
        uint32_t room = stack->room ? stack->room * 2 : 16;
        void *larger = realloc(stack->rows, room * sizeof *stack->rows);
        if (!larger) return false;
        stack->rows = larger;
        stack->room = room;
    }
    uint64_t row = in->index->iterations++;
    if (!grown(&in->keys, &in->keys_room, row)) return false;
    uint64_t loop = weft_value_mix(around(in, stack, head->thread) + in->names[head->place - 1]);
    loop = weft_value_mix(loop + body->instance);
    in->keys[row] = weft_value_mix(loop ^ weft_value_mix((uint64_t)body->index + 1));
    if (in->iterations)
        in->iterations[row] = (struct weft_value_iteration){offset,      in->keys[row], loop,          innermost(stack),
                                                            body->index, head->place,   body->instance};
    stack->rows[stack->depth++] = (int64_t)row;
    return true;
}

static bool leave(struct reader *in, const struct weft_value_record *head) {
    struct stack *stack = &in->threads[head->thread];
    if (!stack->depth) return false;
    stack->depth--;
    return true;
}

/* Bytes that the elements of a probe take, or more than any record has where that cannot be right. */
static uint64_t payload(const struct weft_value_probe *probe, const uint8_t *at, uint64_t room) {
    uint64_t blocks = (probe->count + WEFT_VALUES_BLOCK - 1) / WEFT_VALUES_BLOCK, n;
    switch (probe->head.form) {
    case WEFT_FORM_VALUES: return probe->count * probe->size;
    case WEFT_FORM_HASHES: return blocks * 8;
    case WEFT_FORM_STATISTICS: return sizeof(struct weft_statistics);
    case WEFT_FORM_CHANGES:
        if (room < (blocks + 1) * 8) return UINT64_MAX;
        memcpy(&n, at + blocks * 8, 8);
        if (n > blocks || room < (blocks + 1 + n) * 8) return UINT64_MAX;
        return (blocks + 1 + n) * 8;
    default: return UINT64_MAX;
    }
}

static bool sound(const struct weft_value_probe *probe) {
    const struct weft_value_extent *extents = (const void *)(probe + 1);
    uint64_t rest = probe->head.bytes - sizeof *probe, count = 1;
    if (probe->dims > WEFT_VALUES_DIMS || rest < probe->dims * sizeof *extents ||
        !weft_type_known(probe->type, probe->size))
        return false;
    for (int d = 0; d < probe->dims; d++) {
        if (extents[d].shape < 0 || __builtin_mul_overflow(count, (uint64_t)extents[d].shape, &count)) return false;
    }
    rest -= probe->dims * sizeof *extents;
    if (count != probe->count || count > UINT64_MAX / 64) return false;
    return payload(probe, (const uint8_t *)(extents + probe->dims), rest) <= rest;
}

static bool probe(struct reader *in, const struct weft_value_record *head, uint64_t offset) {
    const struct weft_value_probe *body = (const void *)head;
    if (head->bytes < sizeof *body || !sound(body) || body->array > in->index->places) return false;
    const struct stack *stack = &in->threads[head->thread];
    uint64_t key = weft_value_mix(around(in, stack, head->thread) ^ in->names[head->place - 1]);
    key = weft_value_mix(key + body->ordinal + 1);
    uint64_t row = in->index->probes++;
    if (in->probes) in->probes[row] = (struct weft_value_row){offset, key, innermost(stack), head->place, head->thread};
    return true;
}

static bool take(struct reader *in, const struct weft_value_record *head, uint64_t offset) {
    bool known = head->place && head->place <= in->index->places;
    switch (head->kind) {
    case WEFT_VALUE_PLACE: return place(in, head, offset);
    case WEFT_VALUE_ENTER: return known && enter(in, head, offset);
    case WEFT_VALUE_LEAVE: return known && leave(in, head);
    case WEFT_VALUE_PROBE: return known && probe(in, head, offset);
    case WEFT_VALUE_PROBLEM:
        if (in->problems) in->problems[in->index->problems] = offset;
        in->index->problems++;
        return known && head->bytes > sizeof *head && !((const char *)head)[head->bytes - 1];
    default: return false;
    }
}

void weft_values_index(const uint8_t *records, uint64_t used, struct weft_value_index *index,
                       struct weft_value_site *places, struct weft_value_iteration *iterations,
                       struct weft_value_row *probes, uint64_t *problems) {
    struct reader in = {.records = records,
                        .index = index,
                        .places = places,
                        .iterations = iterations,
                        .probes = probes,
                        .problems = problems};
    *index = (struct weft_value_index){0};
    in.threads = calloc(THREADS, sizeof *in.threads);
    for (uint64_t at = 0; in.threads && at < used;) {
        const struct weft_value_record *head = (const void *)(records + at);
        bool fits = used - at >= sizeof *head && head->bytes >= sizeof *head && head->bytes <= used - at;
        if (!fits || head->bytes % 8 || !take(&in, head, at)) break;
        at += head->bytes;
        index->damaged = at;
    }
    for (int i = 0; in.threads && i < THREADS; i++) free(in.threads[i].rows);
    free(in.threads);
    free(in.names);
    free(in.keys);
}

uint64_t weft_values_hash(const uint8_t *at, uint64_t n, int64_t stride, int type, unsigned size, uint64_t place,
                          uint64_t step) {
    return weft_hash_run(at, (int64_t)n, stride, type, size, place, step);
}

static bool same(const struct weft_value_probe *one, const struct weft_value_probe *two) {
    return one->head.form == two->head.form && one->head.bytes == two->head.bytes && one->count == two->count &&
           one->type == two->type && one->size == two->size && one->dims == two->dims && one->order == two->order &&
           !one->array == !two->array && one->head.form != WEFT_FORM_CHANGES &&
           !memcmp(one + 1, two + 1, one->head.bytes - sizeof *one);
}

void weft_values_same(const uint8_t *one, const uint64_t *at_one, const uint8_t *two, const uint64_t *at_two,
                      uint64_t count, uint8_t *out) {
    for (uint64_t i = 0; i < count; i++)
        out[i] = same((const void *)(one + at_one[i]), (const void *)(two + at_two[i]));
}

uint64_t weft_values_step(unsigned dimension) { return dimension < WEFT_VALUES_DIMS ? weft_place_step[dimension] : 0; }
