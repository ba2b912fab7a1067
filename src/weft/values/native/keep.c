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
struct page_check {
    struct iovec pieces[PAGES_AT_ONCE];
    int n;
    uintptr_t from, to; /* what was asked for last, in whole pages */
    bool gone;
};

/* Check with one system call whether the collected pages are readable; set `gone` if one is not. */
static void check_collected_pages(struct page_check *asked) {
    char got[PAGES_AT_ONCE];
    ssize_t readable = asked->n ? weft_read_own_memory(got, asked->pieces, asked->n) : 0;
    if (readable >= 0 && readable < asked->n) asked->gone = true;
    asked->n = 0;
}

/* Collect the pages of [low, high) for check_collected_pages(), except those collected just before. */
static void collect_pages(struct page_check *asked, uintptr_t low, uintptr_t high) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = (high + page - 1) & ~(page - 1);
    low &= ~(page - 1);
    bool goes_on = low >= asked->from && low <= asked->to;
    for (uintptr_t at = goes_on ? asked->to : low; at < end && !asked->gone; at += page) {
        if (asked->n == PAGES_AT_ONCE) check_collected_pages(asked);
        asked->pieces[asked->n++] = (struct iovec){(void *)at, 1};
    }
    if (!goes_on) asked->from = low;
    if (!goes_on || end > asked->to) asked->to = end;
}

/* Return whether all elements of an array can be read. A wrong size may reach into unmapped memory or a guard page. */
static bool is_readable(const struct weft_array *array) {
    struct weft_walk walk = weft_begin_walk(array);
    struct page_check asked = {.n = 0};
    for (struct weft_run run; !asked.gone && weft_find_next_run(&walk, &run);) {
        uintptr_t at = (uintptr_t)run.at;
        int64_t last = (run.n - 1) * run.stride;
        if (last / run.n < 1024 && last / run.n > -1024)
            collect_pages(&asked, last < 0 ? at + (uintptr_t)last : at,
                          (last < 0 ? at : at + (uintptr_t)last) + array->size);
        else
            for (int64_t element = 0; element < run.n; element++, at += (uintptr_t)run.stride)
                collect_pages(&asked, at, at + array->size);
    }
    if (!asked.gone) check_collected_pages(&asked);
    return !asked.gone;
}

/* Return why an array cannot be recorded, as a clause for a message; NULL if it can. */
const char *weft_find_refusal(const struct weft_array *array) {
    if (array->dims == WEFT_SMALL_PITCH)
        return "a pitch is smaller than the shape: give how long the rows in memory are";
    if (array->dims > WEFT_VALUES_DIMS) return "it has more than 8 dimensions";
    if (!strchr("iufcb", array->type) || !array->type) return "its type is not one of numbers";
    if (!weft_type_known(array->type, array->size)) return "its elements have a size that no number has";
    for (int dimension = 0; dimension < array->dims; dimension++)
        if (array->shape[dimension] < 0) return "its size is negative";
    if (!weft_count_elements(array)) return NULL;
    if (!array->data) return "it is a null pointer";
    return is_readable(array) ? NULL : "its memory ends before its elements do";
}

/* Return the sum of all elements' hashes, and add each block's share to `blocks` (unless NULL). */
static uint64_t hash_blocks(const struct weft_array *array, uint64_t *blocks) {
    struct weft_walk walk = weft_begin_walk(array);
    uint64_t sum = 0;
    for (struct weft_run run; weft_find_next_run(&walk, &run);) {
        uint64_t some = weft_hash_run(run.at, run.n, run.stride, array->type, array->size, run.place, run.step);
        if (blocks) blocks[run.number / WEFT_VALUES_BLOCK] += some;
        sum += some;
    }
    return sum;
}

/* Append the elements of a run (elements at a constant stride) to the trace, without gaps. */
static void write_run(const struct weft_run *run, unsigned size) {
    if (run->stride == size) weft_values_append(run->at, (size_t)run->n * size);
    else
        for (int64_t i = 0; i < run->n; i++) weft_values_append(run->at + i * run->stride, size);
}

/* Append an array's elements to the trace: all, or only the blocks flagged in `changed`. Return the number of bytes. */
static uint64_t write_elements(const struct weft_array *array, const bool *changed) {
    struct weft_walk walk = weft_begin_walk(array);
    uint64_t bytes = 0;
    for (struct weft_run run; weft_find_next_run(&walk, &run);)
        if (!changed || changed[run.number / WEFT_VALUES_BLOCK]) {
            write_run(&run, array->size);
            bytes += (uint64_t)run.n * array->size;
        }
    return bytes;
}

/* Return an array element as a double. */
static double read_number(const struct weft_array *array, const unsigned char *bytes) {
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
    memcpy(&x, bytes, array->size < sizeof x ? array->size : sizeof x);
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

/* Return minimum, maximum, sum and sum of squares of all elements, and the number of NaNs. */
static struct weft_statistics compute_statistics(const struct weft_array *array) {
    struct weft_statistics result = {0, __builtin_inf(), -__builtin_inf(), 0, 0};
    struct weft_walk walk = weft_begin_walk(array);
    for (struct weft_run run; weft_find_next_run(&walk, &run);)
        for (int64_t i = 0; i < run.n; i++) {
            double number = read_number(array, run.at + i * run.stride);
            if (number != number) {
                result.nans++;
                continue;
            }
            if (number < result.least) result.least = number;
            if (number > result.greatest) result.greatest = number;
            result.sum += number;
            result.squares += number * number;
        }
    return result;
}

/* Fill in shape, position and global size of each dimension for a trace record. */
static void fill_extents(const struct weft_array *array, struct weft_value_extent *extents) {
    for (int dimension = 0; dimension < array->dims; dimension++)
        extents[dimension] =
            (struct weft_value_extent){array->shape[dimension], array->lower[dimension], array->whole[dimension]};
}

/* Append zeros up to a multiple of 8 bytes. */
static void write_padding(uint64_t bytes) { weft_values_append("\0\0\0\0\0\0\0", (8 - bytes % 8) % 8); }

/* Begin a probe's record with its head and extents; `payload` bytes in the given form follow, padded to 8. Return false
 * if the trace has stopped. */
static bool begin_probe(struct weft_value_probe *probe, const struct weft_array *array, int form, uint64_t payload) {
    struct weft_value_extent extents[WEFT_VALUES_DIMS];
    fill_extents(array, extents);
    uint64_t extent_bytes = (uint64_t)array->dims * sizeof *extents;
    probe->head.form = (uint8_t)form;
    probe->head.bytes = sizeof *probe + extent_bytes + (payload + 7) / 8 * 8;
    if (!weft_values_begin_record(probe->head.bytes)) return false;
    weft_values_append(probe, sizeof *probe);
    weft_values_append(extents, extent_bytes);
    return true;
}

/* Record a probe with all its values. */
static void write_values(struct weft_value_probe *probe, const struct weft_array *array) {
    uint64_t bytes = probe->count * array->size;
    if (!begin_probe(probe, array, WEFT_FORM_VALUES, bytes)) return;
    write_elements(array, NULL);
    write_padding(bytes);
    weft_values_end_record();
}

/* Record a probe by statistics instead of values. */
static void write_statistics(struct weft_value_probe *probe, const struct weft_array *array) {
    struct weft_statistics result = compute_statistics(array);
    if (!begin_probe(probe, array, WEFT_FORM_STATISTICS, sizeof result)) return;
    weft_values_append(&result, sizeof result);
    weft_values_end_record();
}

/* Record a probe by a hash of each block of elements. */
static void write_hashes(struct weft_value_probe *probe, const struct weft_array *array, const uint64_t *hashes,
                         uint64_t blocks) {
    if (!begin_probe(probe, array, WEFT_FORM_HASHES, blocks * 8)) return;
    weft_values_append(hashes, blocks * 8);
    weft_values_end_record();
}

/* Find the blocks whose hash differs from what this probe recorded last: flag them in `changed`, list them in
 * `numbers`, return how many. */
static uint64_t find_changed_blocks(const struct place *place, const struct weft_value_probe *probe,
                                    const uint64_t *hashes, uint64_t blocks, bool *changed, uint64_t *numbers) {
    bool has_same_shape = place->blocks == blocks && place->elements == probe->count;
    uint64_t changed_count = 0;
    for (uint64_t block = 0; block < blocks; block++) {
        changed[block] = !has_same_shape || place->previous[block] != hashes[block];
        if (changed[block]) numbers[changed_count++] = block;
    }
    return changed_count;
}

/* Record a probe by the hashes of all blocks and the values of those that have changed. Return false without memory. */
static bool write_changes(struct place *place, struct weft_value_probe *probe, const struct weft_array *array,
                          uint64_t *hashes, uint64_t blocks) {
    bool *changed = malloc(blocks);
    uint64_t *numbers = malloc(blocks * 8), bytes = 0;
    if (changed && numbers) {
        uint64_t changed_count = find_changed_blocks(place, probe, hashes, blocks, changed, numbers);
        for (uint64_t i = 0; i < changed_count; i++) {
            uint64_t rest = probe->count - numbers[i] * WEFT_VALUES_BLOCK;
            bytes += (rest < WEFT_VALUES_BLOCK ? rest : WEFT_VALUES_BLOCK) * array->size;
        }
        if (begin_probe(probe, array, WEFT_FORM_CHANGES, (blocks + 1 + changed_count) * 8 + bytes)) {
            weft_values_append(hashes, blocks * 8);
            weft_values_append(&changed_count, 8);
            weft_values_append(numbers, changed_count * 8);
            write_elements(array, changed);
            write_padding(bytes);
            weft_values_end_record();
        }
    }
    bool done = changed && numbers;
    free(changed);
    free(numbers);
    return done;
}

/* Record a probe by hashes of its blocks (form HASHES), with the changed blocks' values (form CHANGES). Return false
 * without memory. */
static bool write_hashed(struct place *place, struct weft_value_probe *probe, const struct weft_array *array,
                         int form) {
    uint64_t blocks = (probe->count + WEFT_VALUES_BLOCK - 1) / WEFT_VALUES_BLOCK;
    uint64_t *hashes = calloc(blocks, 8);
    if (!hashes) return false;
    probe->sum = hash_blocks(array, hashes);
    bool is_done = true;
    if (form == WEFT_FORM_CHANGES) {
        is_done = write_changes(place, probe, array, hashes, blocks);
        free(place->previous);
        place->previous = hashes, place->blocks = blocks, place->elements = probe->count;
    } else {
        write_hashes(probe, array, hashes, blocks);
        free(hashes);
    }
    return is_done;
}

/* Return the form (enum weft_value_form) in which to record a probe: all values if it is small, else as its rules
 * say. */
static int choose_form(const struct place *place, int level, const struct weft_value_probe *probe) {
    static const int forms[] = {0, WEFT_FORM_HASHES, WEFT_FORM_CHANGES, WEFT_FORM_VALUES};
    if (probe->count <= WEFT_VALUES_SMALL) return WEFT_FORM_VALUES;
    if (place->own.form) return place->own.form;
    if (place->around.form) return place->around.form;
    return forms[level];
}

/* Record a probe's array in the form that its rules ask for. */
void weft_keep_probe(struct place *place, struct weft_value_probe *probe, const struct weft_array *array, int level) {
    int form = choose_form(place, level, probe);
    bool is_done = true;
    if (form == WEFT_FORM_VALUES) write_values(probe, array);
    else if (form == WEFT_FORM_STATISTICS && array->type != 'c') write_statistics(probe, array);
    else is_done = write_hashed(place, probe, array, form == WEFT_FORM_STATISTICS ? WEFT_FORM_HASHES : form);
    if (!is_done) weft_report_problem(probe->head.thread, probe->head.place, "there was no memory left to hash it");
}
