/* How the elements of a probe are kept: all, those that changed, hashes or statistics. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "capture.h"

#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "recorder/own_memory.h"
#include "walk.h"
#include "writer.h"

/* Pages that are to be asked for together. */
enum { PAGES_AT_ONCE = 64 };
struct asked {
    struct iovec pieces[PAGES_AT_ONCE];
    int n;
    uintptr_t from, to; /* what was asked for last, in whole pages */
    bool gone;
};

static void ask_kernel(struct asked *asked) {
    char got[PAGES_AT_ONCE];
    ssize_t n = asked->n ? weft_read_own_memory(got, asked->pieces, asked->n) : 0;
    if (n >= 0 && n < asked->n) asked->gone = true;
    asked->n = 0;
}

static void ask(struct asked *asked, uintptr_t low, uintptr_t high) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = (high + page - 1) & ~(page - 1);
    low &= ~(page - 1);
    bool goes_on = low >= asked->from && low <= asked->to;
    for (uintptr_t at = goes_on ? asked->to : low; at < end && !asked->gone; at += page) {
        if (asked->n == PAGES_AT_ONCE) ask_kernel(asked);
        asked->pieces[asked->n++] = (struct iovec){(void *)at, 1};
    }
    if (!goes_on) asked->from = low;
    if (!goes_on || end > asked->to) asked->to = end;
}

/* Whether all elements can be read: a count that is too large ends in memory that is not there, and a page between may be a
 * guard. */
static bool readable(const struct weft_array *array) {
    struct weft_walk walk = weft_walk(array);
    struct asked asked = {.n = 0};
    for (struct weft_run run; !asked.gone && weft_walk_next(&walk, &run);) {
        uintptr_t at = (uintptr_t)run.at;
        int64_t last = (run.n - 1) * run.stride;
        if (last / run.n < 1024 && last / run.n > -1024)
            ask(&asked, last < 0 ? at + (uintptr_t)last : at, (last < 0 ? at : at + (uintptr_t)last) + array->size);
        else
            for (int64_t k = 0; k < run.n; k++, at += (uintptr_t)run.stride) ask(&asked, at, at + array->size);
    }
    if (!asked.gone) ask_kernel(&asked);
    return !asked.gone;
}

const char *weft_refusal(const struct weft_array *array) {
    if (array->dims == WEFT_SMALL_PITCH)
        return "a pitch is smaller than the shape: give how long the rows in memory are";
    if (array->dims > WEFT_VALUES_DIMS) return "it has more than 8 dimensions";
    if (!strchr("iufcb", array->type) || !array->type) return "its type is not one of numbers";
    if (!weft_type_known(array->type, array->size)) return "its elements have a size that no number has";
    for (int d = 0; d < array->dims; d++)
        if (array->shape[d] < 0) return "its size is negative";
    if (!weft_elements(array)) return NULL;
    if (!array->data) return "it is a null pointer";
    return readable(array) ? NULL : "its memory ends before its elements do";
}

static uint64_t hash_blocks(const struct weft_array *array, uint64_t *blocks) {
    struct weft_walk walk = weft_walk(array);
    uint64_t sum = 0;
    for (struct weft_run run; weft_walk_next(&walk, &run);) {
        uint64_t some = weft_hash_run(run.at, run.n, run.stride, array->type, array->size, run.place, run.step);
        if (blocks) blocks[run.number / WEFT_VALUES_BLOCK] += some;
        sum += some;
    }
    return sum;
}

static void put_run(const struct weft_run *run, unsigned size) {
    if (run->stride == size) weft_values_put(run->at, (size_t)run->n * size);
    else
        for (int64_t i = 0; i < run->n; i++) weft_values_put(run->at + i * run->stride, size);
}

/* The elements, of the blocks that are `changed` where that is given. */
static uint64_t put_elements(const struct weft_array *array, const bool *changed) {
    struct weft_walk walk = weft_walk(array);
    uint64_t bytes = 0;
    for (struct weft_run run; weft_walk_next(&walk, &run);)
        if (!changed || changed[run.number / WEFT_VALUES_BLOCK]) {
            put_run(&run, array->size);
            bytes += (uint64_t)run.n * array->size;
        }
    return bytes;
}

static double number(const struct weft_array *array, const unsigned char *at) {
    union {
        double d;
        float f;
        long double l;
        int8_t i1;
        int16_t i2;
        int32_t i4;
        int64_t i8;
        uint8_t u1;
        uint16_t u2;
        uint32_t u4;
        uint64_t u8;
    } x; /* clang-format off */
    memcpy(&x, at, array->size < sizeof x ? array->size : sizeof x);
    switch (array->type << 8 | array->size) {
    case 'f' << 8 | 4: return x.f;
    case 'f' << 8 | 8: return x.d;
    case 'f' << 8 | 16: return (double)x.l;
    case 'i' << 8 | 1: return x.i1;
    case 'i' << 8 | 2: return x.i2;
    case 'i' << 8 | 4: return x.i4;
    case 'i' << 8 | 8: return (double)x.i8;
    case 'u' << 8 | 2: return x.u2;
    case 'u' << 8 | 4: return x.u4;
    case 'u' << 8 | 8: return (double)x.u8;
    default: return x.u1;
    } /* clang-format on */
}

static struct weft_statistics statistics(const struct weft_array *array) {
    struct weft_statistics known = {0, __builtin_inf(), -__builtin_inf(), 0, 0};
    struct weft_walk walk = weft_walk(array);
    for (struct weft_run run; weft_walk_next(&walk, &run);)
        for (int64_t i = 0; i < run.n; i++) {
            double x = number(array, run.at + i * run.stride);
            if (x != x) {
                known.nans++;
                continue;
            }
            if (x < known.least) known.least = x;
            if (x > known.greatest) known.greatest = x;
            known.sum += x;
            known.squares += x * x;
        }
    return known;
}

static void extents(const struct weft_array *array, struct weft_value_extent *to) {
    for (int d = 0; d < array->dims; d++)
        to[d] = (struct weft_value_extent){array->shape[d], array->lower[d], array->whole[d]};
}

static void pad(uint64_t bytes) { weft_values_put("\0\0\0\0\0\0\0", (8 - bytes % 8) % 8); }

/* Writes head, extents and what `form` asks for; `payload` bytes of that are padded to 8. */
static bool open_probe(struct weft_value_probe *probe, const struct weft_array *array, int form, uint64_t payload) {
    struct weft_value_extent known[WEFT_VALUES_DIMS];
    extents(array, known);
    uint64_t more = (uint64_t)array->dims * sizeof *known;
    probe->head.form = (uint8_t)form;
    probe->head.bytes = sizeof *probe + more + (payload + 7) / 8 * 8;
    if (!weft_values_room(probe->head.bytes)) return false;
    weft_values_put(probe, sizeof *probe);
    weft_values_put(known, more);
    return true;
}

static void keep_values(struct weft_value_probe *probe, const struct weft_array *array) {
    uint64_t bytes = probe->count * array->size;
    if (!open_probe(probe, array, WEFT_FORM_VALUES, bytes)) return;
    put_elements(array, NULL);
    pad(bytes);
    weft_values_whole();
}

static void keep_statistics(struct weft_value_probe *probe, const struct weft_array *array) {
    struct weft_statistics known = statistics(array);
    if (!open_probe(probe, array, WEFT_FORM_STATISTICS, sizeof known)) return;
    weft_values_put(&known, sizeof known);
    weft_values_whole();
}

static void keep_hashes(struct weft_value_probe *probe, const struct weft_array *array, const uint64_t *hashes,
                        uint64_t blocks) {
    if (!open_probe(probe, array, WEFT_FORM_HASHES, blocks * 8)) return;
    weft_values_put(hashes, blocks * 8);
    weft_values_whole();
}

/* The blocks that are not what this probe kept last; `changed` and `numbers` have room for all. */
static uint64_t find_changed(const struct place *place, const struct weft_value_probe *probe, const uint64_t *hashes,
                             uint64_t blocks, bool *changed, uint64_t *numbers) {
    bool same = place->blocks == blocks && place->elements == probe->count;
    uint64_t n = 0;
    for (uint64_t b = 0; b < blocks; b++) {
        changed[b] = !same || place->previous[b] != hashes[b];
        if (changed[b]) numbers[n++] = b;
    }
    return n;
}

static bool keep_changes(struct place *place, struct weft_value_probe *probe, const struct weft_array *array,
                         uint64_t *hashes, uint64_t blocks) {
    bool *changed = malloc(blocks);
    uint64_t *numbers = malloc(blocks * 8), bytes = 0;
    if (changed && numbers) {
        uint64_t n = find_changed(place, probe, hashes, blocks, changed, numbers);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t rest = probe->count - numbers[i] * WEFT_VALUES_BLOCK;
            bytes += (rest < WEFT_VALUES_BLOCK ? rest : WEFT_VALUES_BLOCK) * array->size;
        }
        if (open_probe(probe, array, WEFT_FORM_CHANGES, (blocks + 1 + n) * 8 + bytes)) {
            weft_values_put(hashes, blocks * 8);
            weft_values_put(&n, 8);
            weft_values_put(numbers, n * 8);
            put_elements(array, changed);
            pad(bytes);
            weft_values_whole();
        }
    }
    bool done = changed && numbers;
    free(changed);
    free(numbers);
    return done;
}

static bool keep_hashed(struct place *place, struct weft_value_probe *probe, const struct weft_array *array, int form) {
    uint64_t blocks = (probe->count + WEFT_VALUES_BLOCK - 1) / WEFT_VALUES_BLOCK;
    uint64_t *hashes = calloc(blocks, 8);
    if (!hashes) return false;
    probe->sum = hash_blocks(array, hashes);
    bool done = true;
    if (form == WEFT_FORM_CHANGES) {
        done = keep_changes(place, probe, array, hashes, blocks);
        free(place->previous);
        place->previous = hashes, place->blocks = blocks, place->elements = probe->count;
    } else {
        keep_hashes(probe, array, hashes, blocks);
        free(hashes);
    }
    return done;
}

static int form_for(const struct place *place, int level, const struct weft_value_probe *probe) {
    static const int forms[] = {0, WEFT_FORM_HASHES, WEFT_FORM_CHANGES, WEFT_FORM_VALUES};
    if (probe->count <= WEFT_VALUES_SMALL) return WEFT_FORM_VALUES;
    if (place->own.form) return place->own.form;
    if (place->around.form) return place->around.form;
    return forms[level];
}

void weft_keep(struct place *place, struct weft_value_probe *probe, const struct weft_array *array, int level) {
    int form = form_for(place, level, probe);
    bool done = true;
    if (form == WEFT_FORM_VALUES) keep_values(probe, array);
    else if (form == WEFT_FORM_STATISTICS && array->type != 'c') keep_statistics(probe, array);
    else done = keep_hashed(place, probe, array, form == WEFT_FORM_STATISTICS ? WEFT_FORM_HASHES : form);
    if (!done) weft_complain(probe->head.thread, probe->head.place, "there was no memory left to hash it");
}
