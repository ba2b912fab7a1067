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

/* Make room for element `count` in an array that doubles its capacity. Return false without memory. */
static bool make_room(uint64_t **array, uint64_t *room, uint64_t count) {
    if (count < *room) return true;
    uint64_t new_room = *room ? *room * 2 : 1024;
    void *larger = realloc(*array, new_room * sizeof **array);
    if (!larger) return false;
    *array = larger;
    *room = new_room;
    return true;
}

/* Return a hash of a probe's or loop's kind and name. */
static uint64_t hash_name(uint32_t kind, const char *name) {
    uint64_t hash = 14695981039346656037u ^ kind;
    for (; *name; name++) hash = (hash ^ (uint8_t)*name) * 1099511628211u;
    return weft_value_mix(hash);
}

/* Read the record that defines a place (a probe, loop or region of the program). Return false if it is invalid or
 * without memory. */
static bool read_place(struct reader *reader, const struct weft_value_record *record, uint64_t offset) {
    const struct weft_value_place *body = (const void *)record;
    if (record->bytes < sizeof *body + 8 || record->place != reader->index->places + 1) return false;
    const char *texts = (const char *)(body + 1), *end = (const char *)record + record->bytes, *text = texts;
    for (int i = 0; i < 3; i++) {
        text = memchr(text, 0, (size_t)(end - text));
        if (!text++) return false;
    }
    uint64_t row = reader->index->places++;
    if (!make_room(&reader->names, &reader->names_room, row)) return false;
    reader->names[row] = hash_name(body->kind, texts);
    if (reader->places) reader->places[row] = (struct weft_value_site){offset, reader->names[row]};
    return true;
}

/* Return the row of the innermost open iteration; -1 if there is none. */
static int64_t find_innermost_iteration(const struct stack *stack) {
    return stack->depth ? stack->rows[stack->depth - 1] : -1;
}

/* Return the key of the innermost open iteration; outside of loops one for the thread. */
static uint64_t find_surrounding_key(const struct reader *reader, const struct stack *stack, uint16_t thread) {
    int64_t row = find_innermost_iteration(stack);
    return row < 0 ? weft_value_mix(thread) : reader->keys[row];
}

/* Read the record that begins an iteration. Return false if it is invalid or without memory. */
static bool enter_iteration(struct reader *reader, const struct weft_value_record *record, uint64_t offset) {
    const struct weft_value_scope *body = (const void *)record;
    struct stack *stack = &reader->threads[record->thread];
    if (record->bytes < sizeof *body) return false;
    if (stack->depth == stack->room) {
        uint32_t room = stack->room ? stack->room * 2 : 16;
        void *larger = realloc(stack->rows, room * sizeof *stack->rows);
        if (!larger) return false;
        stack->rows = larger;
        stack->room = room;
    }
    uint64_t row = reader->index->iterations++;
    if (!make_room(&reader->keys, &reader->keys_room, row)) return false;
    uint64_t loop =
        weft_value_mix(find_surrounding_key(reader, stack, record->thread) + reader->names[record->place - 1]);
    loop = weft_value_mix(loop + body->instance);
    reader->keys[row] = weft_value_mix(loop ^ weft_value_mix((uint64_t)body->index + 1));
    if (reader->iterations)
        reader->iterations[row] = (struct weft_value_iteration){
            offset,      reader->keys[row], loop,          find_innermost_iteration(stack),
            body->index, record->place,     body->instance};
    stack->rows[stack->depth++] = (int64_t)row;
    return true;
}

/* Read the record that ends the innermost iteration. Return false if none is open. */
static bool leave_iteration(struct reader *reader, const struct weft_value_record *record) {
    struct stack *stack = &reader->threads[record->thread];
    if (!stack->depth) return false;
    stack->depth--;
    return true;
}

/* Return how many bytes the recorded values of a probe take, by the form of the record; UINT64_MAX if it is invalid. */
static uint64_t count_payload_bytes(const struct weft_value_probe *probe, const uint8_t *elements, uint64_t room) {
    uint64_t blocks = (probe->count + WEFT_VALUES_BLOCK - 1) / WEFT_VALUES_BLOCK, changed;
    switch (probe->head.form) {
    case WEFT_FORM_VALUES: return probe->count * probe->size;
    case WEFT_FORM_HASHES: return blocks * 8;
    case WEFT_FORM_STATISTICS: return sizeof(struct weft_statistics);
    case WEFT_FORM_CHANGES:
        if (room < (blocks + 1) * 8) return UINT64_MAX;
        memcpy(&changed, elements + blocks * 8, 8);
        if (changed > blocks || room < (blocks + 1 + changed) * 8) return UINT64_MAX;
        return (blocks + 1 + changed) * 8;
    default: return UINT64_MAX;
    }
}

/* Return whether a probe record's dimensions, counts and length agree. */
static bool is_sound_probe(const struct weft_value_probe *probe) {
    const struct weft_value_extent *extents = (const void *)(probe + 1);
    uint64_t rest = probe->head.bytes - sizeof *probe, count = 1;
    if (probe->dims > WEFT_VALUES_DIMS || rest < probe->dims * sizeof *extents ||
        !weft_type_known(probe->type, probe->size))
        return false;
    for (int dimension = 0; dimension < probe->dims; dimension++) {
        if (extents[dimension].shape < 0 || __builtin_mul_overflow(count, (uint64_t)extents[dimension].shape, &count))
            return false;
    }
    rest -= probe->dims * sizeof *extents;
    if (count != probe->count || count > UINT64_MAX / 64) return false;
    return count_payload_bytes(probe, (const uint8_t *)(extents + probe->dims), rest) <= rest;
}

/* Read a probe's record. Return false if it is invalid. */
static bool read_probe(struct reader *reader, const struct weft_value_record *record, uint64_t offset) {
    const struct weft_value_probe *body = (const void *)record;
    if (record->bytes < sizeof *body || !is_sound_probe(body) || body->array > reader->index->places) return false;
    const struct stack *stack = &reader->threads[record->thread];
    uint64_t key =
        weft_value_mix(find_surrounding_key(reader, stack, record->thread) ^ reader->names[record->place - 1]);
    key = weft_value_mix(key + body->ordinal + 1);
    uint64_t row = reader->index->probes++;
    if (reader->probes)
        reader->probes[row] =
            (struct weft_value_row){offset, key, find_innermost_iteration(stack), record->place, record->thread};
    return true;
}

/* Read one record of a value trace, by its kind. Return false if it is invalid. */
static bool read_record(struct reader *reader, const struct weft_value_record *record, uint64_t offset) {
    bool known = record->place && record->place <= reader->index->places;
    switch (record->kind) {
    case WEFT_VALUE_PLACE: return read_place(reader, record, offset);
    case WEFT_VALUE_ENTER: return known && enter_iteration(reader, record, offset);
    case WEFT_VALUE_LEAVE: return known && leave_iteration(reader, record);
    case WEFT_VALUE_PROBE: return known && read_probe(reader, record, offset);
    case WEFT_VALUE_PROBLEM:
        if (reader->problems) reader->problems[reader->index->problems] = offset;
        reader->index->problems++;
        return known && record->bytes > sizeof *record && !((const char *)record)[record->bytes - 1];
    default: return false;
    }
}

/* Index a value trace in one pass: count its places, iterations, probes and problems, and fill the arrays that are not
 * NULL. */
void weft_index_values(const uint8_t *records, uint64_t used, struct weft_value_index *index,
                       struct weft_value_site *places, struct weft_value_iteration *iterations,
                       struct weft_value_row *probes, uint64_t *problems) {
    struct reader reader = {.records = records,
                            .index = index,
                            .places = places,
                            .iterations = iterations,
                            .probes = probes,
                            .problems = problems};
    *index = (struct weft_value_index){0};
    reader.threads = calloc(THREADS, sizeof *reader.threads);
    for (uint64_t offset = 0; reader.threads && offset < used;) {
        const struct weft_value_record *record = (const void *)(records + offset);
        bool fits =
            used - offset >= sizeof *record && record->bytes >= sizeof *record && record->bytes <= used - offset;
        if (!fits || record->bytes % 8 || !read_record(&reader, record, offset)) break;
        offset += record->bytes;
        index->damaged = offset;
    }
    for (int i = 0; reader.threads && i < THREADS; i++) free(reader.threads[i].rows);
    free(reader.threads);
    free(reader.names);
    free(reader.keys);
}

uint64_t weft_hash_values(const uint8_t *first, uint64_t count, int64_t stride, int type, unsigned size, uint64_t place,
                          uint64_t step) {
    return weft_hash_run(first, (int64_t)count, stride, type, size, place, step);
}

/* Return whether two probe records hold the same values, byte for byte. Records of changes never count as the same. */
static bool hold_same_values(const struct weft_value_probe *probe, const struct weft_value_probe *other_probe) {
    return probe->head.form == other_probe->head.form && probe->head.bytes == other_probe->head.bytes &&
           probe->count == other_probe->count && probe->type == other_probe->type && probe->size == other_probe->size &&
           probe->dims == other_probe->dims && probe->order == other_probe->order &&
           !probe->array == !other_probe->array && probe->head.form != WEFT_FORM_CHANGES &&
           !memcmp(probe + 1, other_probe + 1, probe->head.bytes - sizeof *probe);
}

/* Compare pairs of probe records, given by their offsets, and set `out` to whether they hold the same values. */
void weft_compare_values(const uint8_t *one, const uint64_t *at_one, const uint8_t *two, const uint64_t *at_two,
                         uint64_t count, uint8_t *out) {
    for (uint64_t i = 0; i < count; i++)
        out[i] = hold_same_values((const void *)(one + at_one[i]), (const void *)(two + at_two[i]));
}

uint64_t weft_find_place_step(unsigned dimension) {
    return dimension < WEFT_VALUES_DIMS ? weft_place_step[dimension] : 0;
}
