/* Rows of cells: a word of each, every so many bytes. */
#include "cells.h"

#include "access.h"

static const uint32_t *word(const void *cells, int64_t stride, int64_t i) {
    return (const uint32_t *)((const char *)cells + stride * i);
}

static bool scan_plain(const void *cells, int64_t stride, int64_t n, uint32_t least, uint32_t limit, uint32_t also) {
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t w = *word(cells, stride, i);
        bad |= (w - least > limit) & (w != also);
    }
    return !bad;
}

static void fill_plain(void *cells, int64_t stride, int64_t n, stamp_t first, stamp_t rise) {
    for (int64_t i = 0; i < n; i++, first += rise) *(uint32_t *)word(cells, stride, i) = first;
}

static void touch_plain(void *cells, int64_t stride, int64_t n, stamp_t first, stamp_t rise) {
    for (int64_t i = 0; i < n; i++, first += rise) {
        struct cell *c = (struct cell *)word(cells, stride, i);
        if (c->written != first && (c->read <= now.base || c->read > first)) c->read = first;
    }
}

#if defined __x86_64__
#include <immintrin.h>

/* more: `also` does not lie in the interval. */
__attribute__((target("avx2"), always_inline)) static inline bool look(const void *cells, int64_t n, uint32_t least,
                                                                       uint32_t limit, uint32_t also, bool more) {
    const float *p = cells;
    __m256i from = _mm256_set1_epi32((int)(least + 0x80000000u)), most = _mm256_set1_epi32((int)(limit ^ 0x80000000u));
    __m256i bad = _mm256_setzero_si256(), right = _mm256_set1_epi32((int)also);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 one = _mm256_loadu_ps(p + 2 * i), two = _mm256_loadu_ps(p + 2 * i + 8);
        __m256i w = _mm256_castps_si256(_mm256_shuffle_ps(one, two, 0x88));
        __m256i over = _mm256_cmpgt_epi32(_mm256_sub_epi32(w, from), most);
        bad = _mm256_or_si256(bad, more ? _mm256_andnot_si256(_mm256_cmpeq_epi32(w, right), over) : over);
    }
    return _mm256_testz_si256(bad, bad) && scan_plain(p + 2 * i, 8, n - i, least, limit, also);
}

__attribute__((target("avx2"))) static bool scan_wide(const void *cells, int64_t n, uint32_t least, uint32_t limit,
                                                      uint32_t also) {
    bool more = also - least > limit;
    return more ? look(cells, n, least, limit, also, true) : look(cells, n, least, limit, also, false);
}

/* Tiles of at least 4 cells; the last 4 of one may overlap those before. */
__attribute__((target("avx2"))) static bool scan_tiles(const void *cells, int64_t stride, int64_t n, int tile,
                                                       uint32_t least, uint32_t limit, uint32_t also) {
    __m256i from = _mm256_set1_epi32((int)(least + 0x80000000u)), most = _mm256_set1_epi32((int)(limit ^ 0x80000000u));
    __m256i bad = _mm256_setzero_si256(), right = _mm256_set1_epi32((int)also);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t *p = word(cells, stride, i);
        for (int k = 0; k < tile; k += 4) {
            __m256i w = _mm256_loadu_si256((const __m256i *)(p + 2 * (k + 4 <= tile ? k : tile - 4)));
            __m256i over = _mm256_cmpgt_epi32(_mm256_sub_epi32(w, from), most);
            bad = _mm256_or_si256(bad, _mm256_andnot_si256(_mm256_cmpeq_epi32(w, right), over));
        }
    }
    return _mm256_testz_si256(bad, _mm256_set1_epi64x(0xFFFFFFFF)); /* the other words are not these */
}

#define WIDE __attribute__((target("avx2"), always_inline)) static inline

WIDE void fill_4(void *cells, __m256i stamps) {
    _mm256_storeu_si256(cells, _mm256_blend_epi32(_mm256_loadu_si256(cells), stamps, 0x55));
}

/* from: the first stamp of the construct, as a signed comparison wants it. */
WIDE void touch_4(struct cell *cells, __m256i stamps, __m256i from) {
    __m256i *at = (__m256i *)cells, c = _mm256_loadu_si256(at);
    __m256i own = _mm256_cmpeq_epi32(_mm256_shuffle_epi32(c, 0xA0), stamps); /* written by this iteration */
    __m256i other = _mm256_cmpgt_epi32(_mm256_sub_epi32(c, from), _mm256_sub_epi32(stamps, from));
    __m256i set = _mm256_and_si256(_mm256_andnot_si256(own, other), _mm256_set1_epi64x((int64_t)0xFFFFFFFF00000000));
    _mm256_storeu_si256(at, _mm256_blendv_epi8(c, stamps, set));
}

WIDE __m256i first_of_construct(void) { return _mm256_set1_epi32((int)(now.base + 1 + 0x80000000u)); }

__attribute__((target("avx2"))) static void fill_wide(void *cells, int64_t n, stamp_t first, stamp_t rise) {
    uint32_t *p = cells;
    int r = (int)rise;
    __m256i stamps = _mm256_add_epi32(_mm256_set1_epi32((int)first), _mm256_setr_epi32(0, 0, r, 0, 2 * r, 0, 3 * r, 0));
    __m256i four = _mm256_set1_epi32(4 * r);
    int64_t i = 0;
    for (; i + 4 <= n; i += 4, stamps = _mm256_add_epi32(stamps, four)) fill_4(p + 2 * i, stamps);
    fill_plain(p + 2 * i, 8, n - i, first + rise * (stamp_t)i, rise);
}

__attribute__((target("avx2"))) static void touch_wide(void *cells, int64_t n, stamp_t first, stamp_t rise) {
    struct cell *c = cells;
    int r = (int)rise;
    __m256i rises = _mm256_setr_epi32(0, 0, r, r, 2 * r, 2 * r, 3 * r, 3 * r);
    __m256i stamps = _mm256_add_epi32(_mm256_set1_epi32((int)first), rises);
    __m256i four = _mm256_set1_epi32(4 * r), from = first_of_construct();
    int64_t i = 0;
    for (; i + 4 <= n; i += 4, stamps = _mm256_add_epi32(stamps, four)) touch_4(c + i, stamps, from);
    touch_plain(c + i, 8, n - i, first + rise * (stamp_t)i, rise);
}

/* Tiles of at least 4 cells, each with one stamp; what is done twice where the last 4 overlap changes nothing. */
__attribute__((target("avx2"))) static void fill_tiles(void *cells, int64_t stride, int64_t n, int tile, stamp_t first,
                                                       stamp_t rise) {
    __m256i stamps = _mm256_set1_epi32((int)first), more = _mm256_set1_epi32((int)rise);
    for (int64_t i = 0; i < n; i++, stamps = _mm256_add_epi32(stamps, more)) {
        struct cell *c = (struct cell *)word(cells, stride, i);
        for (int k = 0; k + 4 < tile; k += 4) fill_4(c + k, stamps);
        fill_4(c + tile - 4, stamps);
    }
}

__attribute__((target("avx2"))) static void touch_tiles(void *cells, int64_t stride, int64_t n, int tile, stamp_t first,
                                                        stamp_t rise) {
    __m256i stamps = _mm256_set1_epi32((int)first), more = _mm256_set1_epi32((int)rise), from = first_of_construct();
    for (int64_t i = 0; i < n; i++, stamps = _mm256_add_epi32(stamps, more)) {
        struct cell *c = (struct cell *)word(cells, stride, i);
        for (int k = 0; k + 4 < tile; k += 4) touch_4(c + k, stamps, from);
        touch_4(c + tile - 4, stamps, from);
    }
}

bool wide(void) {
    static int known = -1;
    if (known < 0) known = __builtin_cpu_supports("avx2") != 0;
    return known;
}
#else
#define scan_wide(cells, n, least, limit, also) scan_plain(cells, 8, n, least, limit, also)
#define scan_tiles(cells, stride, n, tile, least, limit, also) false
#define fill_wide(cells, n, first, rise) fill_plain(cells, 8, n, first, rise)
#define fill_tiles(cells, stride, n, tile, first, rise) ((void)0)
#define touch_wide(cells, n, first, rise) touch_plain(cells, 8, n, first, rise)
#define touch_tiles(cells, stride, n, tile, first, rise) ((void)0)
bool wide(void) { return false; }
#endif

/* n times, each so many bytes on, words of as many neighbouring cells as a tile has: whether all are `also` or lie in
 * least..least+limit. */
bool scan(const void *cells, int64_t stride, int64_t n, int tile, stamp_t least, stamp_t limit, stamp_t also) {
    if (stride == -8 && tile == 1) {
        cells = word(cells, stride, n - 1);
        stride = 8;
    }
    if (stride == 8 * tile) {
        n *= tile;
        tile = 1;
        stride = 8;
    }
    if (stride == 8 && tile == 1 && wide()) return scan_wide(cells, n, least, limit, also);
    if (tile >= 4 && wide()) return scan_tiles(cells, stride, n, tile, least, limit, also);
    for (int i = 0; i < tile; i++)
        if (!scan_plain(word(cells, 8, i), stride, n, least, limit, also)) return false;
    return true;
}

/* The same of cells that a stamp each read: what this stamp or an earlier one of the construct did stands. */
void touch(void *cells, int64_t stride, int64_t n, int tile, stamp_t first, stamp_t rise) {
    if (stride == 8 * tile && (rise == 0 || tile == 1)) {
        n *= tile;
        tile = 1;
        stride = 8;
    }
    if (stride == 8 && tile == 1 && wide()) touch_wide(cells, n, first, rise);
    else if (tile >= 4 && wide()) touch_tiles(cells, stride, n, tile, first, rise);
    else
        for (int i = 0; i < tile; i++) touch_plain((void *)word(cells, 8, i), stride, n, first, rise);
}

/* The same words: each time a stamp that is as much greater than the last one. */
void fill(void *cells, int64_t stride, int64_t n, int tile, stamp_t first, stamp_t rise) {
    if (stride == 8 * tile && rise == 0) {
        n *= tile;
        tile = 1;
        stride = 8;
    }
    if (stride == 8 && tile == 1 && wide()) fill_wide(cells, n, first, rise);
    else if (tile >= 4 && wide()) fill_tiles(cells, stride, n, tile, first, rise);
    else
        for (int i = 0; i < tile; i++) fill_plain((void *)word(cells, 8, i), stride, n, first, rise);
}
