/* Rows of cells: a word of each, every so many bytes. */
#include "cells.h"

#include "access.h"

/* Return a pointer to one 32-bit word of the `index`-th cell of a row whose cells lie `stride` bytes apart. */
static const uint32_t *word_of_cell(const void *cells, int64_t stride, int64_t index) {
    return (const uint32_t *)((const char *)cells + stride * index);
}

/* Return whether one word of each of `count` cells lies in lowest..lowest+span or equals `exception`. Portable
 * version. */
static bool is_every_word_allowed_plain(const void *cells, int64_t stride, int64_t count, uint32_t lowest,
                                        uint32_t span, uint32_t exception) {
    uint32_t bad = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t w = *word_of_cell(cells, stride, i);
        bad |= (w - lowest > span) & (w != exception);
    }
    return !bad;
}

/* Write rising time stamps into one word of `count` cells: first_stamp, first_stamp + rise, ... Portable version. */
static void set_written_stamps_plain(void *cells, int64_t stride, int64_t count, stamp_t first_stamp, stamp_t rise) {
    for (int64_t i = 0; i < count; i++, first_stamp += rise) *(uint32_t *)word_of_cell(cells, stride, i) = first_stamp;
}

/* Note that iterations with the stamps first_stamp, first_stamp + rise, ... read one cell each. An earlier read in the
 * same construct stays noted, and the reader's own write hides its read. Portable version. */
static void set_read_stamps_plain(void *cells, int64_t stride, int64_t count, stamp_t first_stamp, stamp_t rise) {
    for (int64_t i = 0; i < count; i++, first_stamp += rise) {
        struct cell *cell = (struct cell *)word_of_cell(cells, stride, i);
        if (cell->written != first_stamp && (cell->read <= now.base || cell->read > first_stamp))
            cell->read = first_stamp;
    }
}

#if defined __x86_64__
#include <immintrin.h>

/* Check neighbouring cells, eight at a time with AVX2, as is_every_word_allowed_plain does. `has_exception`: whether
 * `exception` lies outside the interval and must be compared, too. */
__attribute__((target("avx2"), always_inline)) static inline bool
is_every_word_allowed_avx2(const void *cells, int64_t count, uint32_t lowest, uint32_t span, uint32_t exception,
                           bool has_exception) {
    const float *p = cells;
    __m256i from = _mm256_set1_epi32((int)(lowest + 0x80000000u)), most = _mm256_set1_epi32((int)(span ^ 0x80000000u));
    __m256i bad = _mm256_setzero_si256(), right = _mm256_set1_epi32((int)exception);
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256 one = _mm256_loadu_ps(p + 2 * i), two = _mm256_loadu_ps(p + 2 * i + 8);
        __m256i w = _mm256_castps_si256(_mm256_shuffle_ps(one, two, 0x88));
        __m256i over = _mm256_cmpgt_epi32(_mm256_sub_epi32(w, from), most);
        bad = _mm256_or_si256(bad, has_exception ? _mm256_andnot_si256(_mm256_cmpeq_epi32(w, right), over) : over);
    }
    return _mm256_testz_si256(bad, bad) &&
           is_every_word_allowed_plain(p + 2 * i, 8, count - i, lowest, span, exception);
}

/* Check neighbouring cells with AVX2. Return whether one word of each lies in lowest..lowest+span or equals
 * `exception`. */
__attribute__((target("avx2"))) static bool
is_every_word_allowed_wide(const void *cells, int64_t count, uint32_t lowest, uint32_t span, uint32_t exception) {
    bool has_exception = exception - lowest > span;
    return has_exception ? is_every_word_allowed_avx2(cells, count, lowest, span, exception, true)
                         : is_every_word_allowed_avx2(cells, count, lowest, span, exception, false);
}

/* Check `count` groups (tiles) of at least four neighbouring cells with AVX2: whether one word of every cell lies in
 * lowest..lowest+span or equals `exception`. The last four cells of a tile may overlap those before. */
__attribute__((target("avx2"))) static bool is_every_tile_allowed_wide(const void *cells, int64_t stride, int64_t count,
                                                                       int tile_width, uint32_t lowest, uint32_t span,
                                                                       uint32_t exception) {
    __m256i from = _mm256_set1_epi32((int)(lowest + 0x80000000u)), most = _mm256_set1_epi32((int)(span ^ 0x80000000u));
    __m256i bad = _mm256_setzero_si256(), right = _mm256_set1_epi32((int)exception);
    for (int64_t i = 0; i < count; i++) {
        const uint32_t *p = word_of_cell(cells, stride, i);
        for (int k = 0; k < tile_width; k += 4) {
            __m256i w = _mm256_loadu_si256((const __m256i *)(p + 2 * (k + 4 <= tile_width ? k : tile_width - 4)));
            __m256i over = _mm256_cmpgt_epi32(_mm256_sub_epi32(w, from), most);
            bad = _mm256_or_si256(bad, _mm256_andnot_si256(_mm256_cmpeq_epi32(w, right), over));
        }
    }
    return _mm256_testz_si256(bad, _mm256_set1_epi64x(0xFFFFFFFF)); /* the other words are not these */
}

#define WIDE __attribute__((target("avx2"), always_inline)) static inline

WIDE void set_written_stamps_of_4_cells(void *cells, __m256i stamps) {
    _mm256_storeu_si256(cells, _mm256_blend_epi32(_mm256_loadu_si256(cells), stamps, 0x55));
}

/* Note reads by the iterations with these stamps in four neighbouring cells. `first_of_construct_stamp`: the
 * construct's first stamp, biased for signed comparison. */
WIDE void set_read_stamps_of_4_cells(struct cell *cells, __m256i stamps, __m256i first_of_construct_stamp) {
    __m256i *target = (__m256i *)cells, c = _mm256_loadu_si256(target);
    __m256i own_write = _mm256_cmpeq_epi32(_mm256_shuffle_epi32(c, 0xA0), stamps); /* written by this iteration */
    __m256i not_yet_read = _mm256_cmpgt_epi32(_mm256_sub_epi32(c, first_of_construct_stamp),
                                              _mm256_sub_epi32(stamps, first_of_construct_stamp));
    __m256i set =
        _mm256_and_si256(_mm256_andnot_si256(own_write, not_yet_read), _mm256_set1_epi64x((int64_t)0xFFFFFFFF00000000));
    _mm256_storeu_si256(target, _mm256_blendv_epi8(c, stamps, set));
}

WIDE __m256i first_stamp_of_construct(void) { return _mm256_set1_epi32((int)(now.base + 1 + 0x80000000u)); }

/* Write rising time stamps into the first word of `count` neighbouring cells, four at a time with AVX2. */
__attribute__((target("avx2"))) static void set_written_stamps_wide(void *cells, int64_t count, stamp_t first_stamp,
                                                                    stamp_t rise) {
    uint32_t *p = cells;
    int r = (int)rise;
    __m256i stamps =
        _mm256_add_epi32(_mm256_set1_epi32((int)first_stamp), _mm256_setr_epi32(0, 0, r, 0, 2 * r, 0, 3 * r, 0));
    __m256i four = _mm256_set1_epi32(4 * r);
    int64_t i = 0;
    for (; i + 4 <= count; i += 4, stamps = _mm256_add_epi32(stamps, four))
        set_written_stamps_of_4_cells(p + 2 * i, stamps);
    set_written_stamps_plain(p + 2 * i, 8, count - i, first_stamp + rise * (stamp_t)i, rise);
}

/* Note reads by iterations with rising time stamps in `count` neighbouring cells, four at a time with AVX2. */
__attribute__((target("avx2"))) static void set_read_stamps_wide(void *cells, int64_t count, stamp_t first_stamp,
                                                                 stamp_t rise) {
    struct cell *cell = cells;
    int r = (int)rise;
    __m256i rises = _mm256_setr_epi32(0, 0, r, r, 2 * r, 2 * r, 3 * r, 3 * r);
    __m256i stamps = _mm256_add_epi32(_mm256_set1_epi32((int)first_stamp), rises);
    __m256i four = _mm256_set1_epi32(4 * r), from = first_stamp_of_construct();
    int64_t i = 0;
    for (; i + 4 <= count; i += 4, stamps = _mm256_add_epi32(stamps, four))
        set_read_stamps_of_4_cells(cell + i, stamps, from);
    set_read_stamps_plain(cell + i, 8, count - i, first_stamp + rise * (stamp_t)i, rise);
}

/* Write time stamps into `count` groups (tiles) of at least four neighbouring cells, with AVX2: one stamp for each
 * tile, rising from tile to tile. Where the last four cells overlap, the same stamp is written twice. */
__attribute__((target("avx2"))) static void set_written_stamps_of_tiles(void *cells, int64_t stride, int64_t count,
                                                                        int tile_width, stamp_t first_stamp,
                                                                        stamp_t rise) {
    __m256i stamps = _mm256_set1_epi32((int)first_stamp), more = _mm256_set1_epi32((int)rise);
    for (int64_t i = 0; i < count; i++, stamps = _mm256_add_epi32(stamps, more)) {
        struct cell *cell = (struct cell *)word_of_cell(cells, stride, i);
        for (int k = 0; k + 4 < tile_width; k += 4) set_written_stamps_of_4_cells(cell + k, stamps);
        set_written_stamps_of_4_cells(cell + tile_width - 4, stamps);
    }
}

/* Note reads in `count` groups (tiles) of at least four neighbouring cells, with AVX2: one time stamp for each tile,
 * rising from tile to tile. */
__attribute__((target("avx2"))) static void set_read_stamps_of_tiles(void *cells, int64_t stride, int64_t count,
                                                                     int tile_width, stamp_t first_stamp,
                                                                     stamp_t rise) {
    __m256i stamps = _mm256_set1_epi32((int)first_stamp), more = _mm256_set1_epi32((int)rise),
            from = first_stamp_of_construct();
    for (int64_t i = 0; i < count; i++, stamps = _mm256_add_epi32(stamps, more)) {
        struct cell *cell = (struct cell *)word_of_cell(cells, stride, i);
        for (int k = 0; k + 4 < tile_width; k += 4) set_read_stamps_of_4_cells(cell + k, stamps, from);
        set_read_stamps_of_4_cells(cell + tile_width - 4, stamps, from);
    }
}

/* Return whether the processor has AVX2. The answer is kept from the first call on. */
bool has_avx2(void) {
    static int known = -1;
    if (known < 0) known = __builtin_cpu_supports("avx2") != 0;
    return known;
}
#else
#define is_every_word_allowed_wide(cells, n, least, limit, also)                                                       \
    is_every_word_allowed_plain(cells, 8, n, least, limit, also)
#define is_every_tile_allowed_wide(cells, stride, n, tile, least, limit, also) false
#define set_written_stamps_wide(cells, n, first, rise) set_written_stamps_plain(cells, 8, n, first, rise)
#define set_written_stamps_of_tiles(cells, stride, n, tile, first, rise) ((void)0)
#define set_read_stamps_wide(cells, n, first, rise) set_read_stamps_plain(cells, 8, n, first, rise)
#define set_read_stamps_of_tiles(cells, stride, n, tile, first, rise) ((void)0)
bool has_avx2(void) { return false; }
#endif

/* Return whether all words of a row of cells lie in lowest..lowest+span or equal `exception`. The row has `count`
 * tiles, `stride` bytes apart; a tile is `tile_width` neighbouring cells, of which the same word is taken. */
bool is_every_word_allowed(const void *cells, int64_t stride, int64_t count, int tile_width, stamp_t lowest,
                           stamp_t span, stamp_t exception) {
    if (stride == -8 && tile_width == 1) {
        cells = word_of_cell(cells, stride, count - 1);
        stride = 8;
    }
    if (stride == 8 * tile_width) {
        count *= tile_width;
        tile_width = 1;
        stride = 8;
    }
    if (stride == 8 && tile_width == 1 && has_avx2())
        return is_every_word_allowed_wide(cells, count, lowest, span, exception);
    if (tile_width >= 4 && has_avx2())
        return is_every_tile_allowed_wide(cells, stride, count, tile_width, lowest, span, exception);
    for (int i = 0; i < tile_width; i++)
        if (!is_every_word_allowed_plain(word_of_cell(cells, 8, i), stride, count, lowest, span, exception))
            return false;
    return true;
}

/* Note reads in a row of `count` tiles of `tile_width` neighbouring cells, `stride` bytes apart: one time stamp for
 * each tile, rising by `rise`. An earlier read in the same construct stays noted. */
void set_read_stamps(void *cells, int64_t stride, int64_t count, int tile_width, stamp_t first_stamp, stamp_t rise) {
    if (stride == 8 * tile_width && (rise == 0 || tile_width == 1)) {
        count *= tile_width;
        tile_width = 1;
        stride = 8;
    }
    if (stride == 8 && tile_width == 1 && has_avx2()) set_read_stamps_wide(cells, count, first_stamp, rise);
    else if (tile_width >= 4 && has_avx2())
        set_read_stamps_of_tiles(cells, stride, count, tile_width, first_stamp, rise);
    else
        for (int i = 0; i < tile_width; i++)
            set_read_stamps_plain((void *)word_of_cell(cells, 8, i), stride, count, first_stamp, rise);
}

/* Write time stamps into a row of `count` tiles of `tile_width` neighbouring cells, `stride` bytes apart: one stamp for
 * each tile, rising by `rise`. */
void set_written_stamps(void *cells, int64_t stride, int64_t count, int tile_width, stamp_t first_stamp, stamp_t rise) {
    if (stride == 8 * tile_width && rise == 0) {
        count *= tile_width;
        tile_width = 1;
        stride = 8;
    }
    if (stride == 8 && tile_width == 1 && has_avx2()) set_written_stamps_wide(cells, count, first_stamp, rise);
    else if (tile_width >= 4 && has_avx2())
        set_written_stamps_of_tiles(cells, stride, count, tile_width, first_stamp, rise);
    else
        for (int i = 0; i < tile_width; i++)
            set_written_stamps_plain((void *)word_of_cell(cells, 8, i), stride, count, first_stamp, rise);
}
