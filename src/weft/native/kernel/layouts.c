/* Whether two layouts have a byte in common, without a look at each block.
 *
 * The blocks of two parts meet where the sum of multiples of the one's strides and that of the other's differ by less
 * than their lengths. Counted from the far end the other's may be added instead of taken away, so the question is: does
 * a sum of multiples, each with a bound, lie in an interval? Strides of which one is a multiple of another mostly become
 * one, as they do in parts of one matrix; what is left is tried from the greatest stride down, where the rest does not
 * reach far. The last two are done as a whole: the first multiple of one stride that leaves a small remainder of another
 * is found as in Euclid's algorithm. So the cost depends on how many levels there are, and hardly on how often they repeat.
 */
#include <string.h>

#include "layouts.h"

#define LEVELS (2 * WEFT_MOST_LEVELS + 2)

struct sums {
    int n;
    int64_t stride[LEVELS], times[LEVELS];     /* by stride, the greatest first */
    int64_t rest[LEVELS + 1], gcd[LEVELS + 1]; /* of those from there on: the greatest sum, what divides all */
    uint64_t *steps;
};

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
static int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }

static int64_t gcd(int64_t a, int64_t b) {
    while (b) {
        int64_t r = a % b;
        a = b, b = r;
    }
    return a;
}

/* Takes one stride up. Where another divides it and has no gap up to it, both are one. */
static void add(struct sums *s, int64_t stride, int64_t times) {
    if (times <= 1 || stride <= 0) return;
    for (int i = 0; i < s->n; i++) {
        int64_t small = min(s->stride[i], stride), great = max(s->stride[i], stride);
        int64_t few = s->stride[i] < stride ? s->times[i] : times, many = s->stride[i] < stride ? times : s->times[i];
        if (great % small || great / small > few) continue;
        s->n--;
        memmove(&s->stride[i], &s->stride[i + 1], sizeof s->stride[0] * (size_t)(s->n - i));
        memmove(&s->times[i], &s->times[i + 1], sizeof s->times[0] * (size_t)(s->n - i));
        add(s, small, few + (many - 1) * (great / small));
        return;
    }
    int at = s->n++;
    for (; at > 0 && s->stride[at - 1] < stride; at--) {
        s->stride[at] = s->stride[at - 1];
        s->times[at] = s->times[at - 1];
    }
    s->stride[at] = stride;
    s->times[at] = times;
}

static void sum_up(struct sums *s) {
    s->rest[s->n] = 0, s->gcd[s->n] = 0;
    for (int k = s->n - 1; k >= 0; k--) {
        s->rest[k] = s->rest[k + 1] + s->stride[k] * (s->times[k] - 1);
        s->gcd[k] = gcd(s->stride[k], s->gcd[k + 1]);
    }
}

/* The first t from 0 on of which t * a modulo m lies in [low, high], 0 < low <= high < m; -1 for none. */
static int64_t first_in(int64_t a, int64_t m, int64_t low, int64_t high) {
    if (low == 0) return 0;
    a %= m;
    if (a == 0) return -1;
    if (a > m - a) return first_in(m - a, m, m - high, m - low);
    int64_t t = ceil_div(low, a);
    if ((__int128)t * a <= high) return t;
    int64_t turns = first_in(m % a, a, (a - high % a) % a, (a - low % a) % a);
    if (turns < 0) return -1;
    __int128 found = ((__int128)turns * m + low + a - 1) / a;
    return found > INT64_MAX ? -1 : (int64_t)found;
}

/* Two strides, k and the last one. */
static bool two_reach(const struct sums *s, int k, int64_t low, int64_t high) {
    int64_t S = s->stride[k], T = s->stride[k + 1], most = s->rest[k + 1], last = s->times[k] - 1;
    if (max(ceil_div(low, S), 0) <= min(floor_div(high, S), last)) return true; /* nothing of T */
    if (max(ceil_div(low - most, S), 0) <= min(floor_div(high - most, S), last)) return true; /* all of T */
    /* For all others the interval lies between nothing and all of T: is a multiple of T in it? */
    int64_t from = max(floor_div(high - most, S) + 1, 0), to = min(ceil_div(low, S) - 1, last);
    if (from > to) return false;
    int64_t begin = (high - from * S) % T, wide = high - low; /* positive there */
    if (begin <= wide) return true;
    int64_t found = first_in(T - S % T, T, T - begin, T - begin + wide);
    return found >= 0 && found <= to - from;
}

static int reaches(const struct sums *s, int k, int64_t low, int64_t high) {
    low = max(low, 0), high = min(high, s->rest[k]);
    if (low > high) return 0;
    if (*s->steps == 0) return -1;
    --*s->steps;
    if (low == 0 || high == s->rest[k]) return 1;
    if (floor_div(high, s->gcd[k]) < ceil_div(low, s->gcd[k])) return 0;
    if (k == s->n - 1) return 1; /* a multiple of its stride */
    if (k == s->n - 2) return two_reach(s, k, low, high);
    int64_t S = s->stride[k];
    int64_t from = max(ceil_div(low - s->rest[k + 1], S), 0), to = min(floor_div(high, S), s->times[k] - 1);
    int known = 0;
    for (int64_t x = from; x <= to; x++) {
        int found = reaches(s, k + 1, low - x * S, high - x * S);
        if (found > 0) return 1;
        if (found < 0) known = -1;
        if (!*s->steps) return -1;
    }
    return known;
}

int weft_reaches(uint64_t count, const int64_t *stride, const int64_t *times, int64_t low, int64_t high,
                 uint64_t *steps) {
    struct sums s = {.steps = steps};
    if (count > LEVELS) return -1;
    for (uint64_t i = 0; i < count; i++) add(&s, stride[i], times[i]);
    sum_up(&s);
    return reaches(&s, 0, low, high);
}

/* A layout, and the outer stride as far as it is a level of its parts. */
struct side {
    const struct weft_layout *of;
    int64_t stride, times;
};

static int64_t outer(const struct side *s) { return s->times > 1 ? s->stride * (s->times - 1) : 0; }

static int parts_meet(struct side a, uint64_t p, struct side b, uint64_t q, int64_t apart, uint64_t *steps) {
    const struct weft_layout *one = a.of, *two = b.of;
    struct sums s = {.steps = steps};
    int64_t far = apart + two->end[q] - two->length[q] + outer(&b) - one->offset[p];
    add(&s, a.stride, a.times);
    add(&s, b.stride, b.times);
    for (uint32_t i = one->level[p]; i < one->level[p + 1]; i++) add(&s, one->stride[i], one->times[i]);
    for (uint32_t i = two->level[q]; i < two->level[q + 1]; i++) add(&s, two->stride[i], two->times[i]);
    sum_up(&s);
    return reaches(&s, 0, far - one->length[p] + 1, far + two->length[q] - 1);
}

/* Each part of the one against those of the other that may meet it. */
static int lists_meet(struct side a, struct side b, int64_t apart, uint64_t *steps) {
    if (a.of->count > b.of->count) return lists_meet(b, a, -apart, steps);
    int known = 0;
    for (uint64_t p = 0; p < a.of->count; p++) {
        int64_t low = a.of->offset[p] - apart, high = a.of->end[p] + outer(&a) - apart;
        uint64_t q = 0, behind = b.of->count;
        while (q < behind) { /* the first that begins behind it */
            uint64_t middle = q + (behind - q) / 2;
            if (b.of->offset[middle] < high) q = middle + 1;
            else behind = middle;
        }
        if (*steps == 0) return -1;
        --*steps;
        for (; q > 0 && b.of->reach[q - 1] + outer(&b) > low; q--) {
            if (b.of->end[q - 1] + outer(&b) <= low) {
                if (*steps == 0) return -1;
                --*steps;
                continue;
            }
            int found = parts_meet(a, p, b, q - 1, apart, steps);
            if (found > 0) return 1;
            if (found < 0) known = -1;
            if (*steps == 0) return -1;
        }
    }
    return known;
}

int weft_meet(const struct weft_layout *one, const struct weft_layout *other, int64_t apart, uint64_t *steps) {
    if (apart >= one->high || apart <= -other->high) return 0;
    if (!one->count || !other->count) return -1;
    struct side a = {one, one->outer_stride, one->outer_times}, b = {other, other->outer_stride, other->outer_times};
    int64_t stride = max(a.times > 1 ? a.stride : 0, b.times > 1 ? b.stride : 0);
    bool alike = a.times <= 1 || b.times <= 1 || a.stride == b.stride;
    int64_t inner_a = one->high - outer(&a), inner_b = other->high - outer(&b);
    if (!stride || !alike || (inner_a + inner_b) / stride > 64) return lists_meet(a, b, apart, steps);
    /* Elements of one length: where some of the other begin as seen from the one, of which few are near it. */
    int64_t from = max(ceil_div(-inner_b + 1 - apart, stride), 1 - max(a.times, 1));
    int64_t to = min(floor_div(inner_a - 1 - apart, stride), max(b.times, 1) - 1);
    int known = 0;
    a.times = b.times = 1;
    for (int64_t k = from; k <= to; k++) {
        int found = lists_meet(a, b, apart + k * stride, steps);
        if (found > 0) return 1;
        if (found < 0) known = -1;
    }
    return known;
}

static bool surely_meet(const struct weft_layout *one, const struct weft_layout *other, int64_t apart, uint64_t steps) {
    return weft_meet(one, other, apart, &steps) > 0;
}

void weft_first(const struct weft_layout *one, const struct weft_layout *other, int64_t apart, uint64_t steps,
                int64_t *at, int64_t *length) {
    struct weft_layout left = *one;
    int64_t inner = one->high - one->outer_stride * (one->outer_times - 1), moved = 0;
    while (left.outer_times > 1) {
        int64_t all = left.outer_times;
        left.outer_times = all / 2;
        left.high = inner + left.outer_stride * (left.outer_times - 1);
        if (surely_meet(&left, other, apart - moved, steps)) continue;
        moved += left.outer_stride * left.outer_times;
        left.outer_times = all - left.outer_times;
        left.high = inner + left.outer_stride * (left.outer_times - 1);
    }
    while (left.count > 1) {
        uint64_t all = left.count, few = all / 2;
        left.count = few;
        if (surely_meet(&left, other, apart - moved, steps)) continue;
        left.offset += few, left.length += few, left.end += few, left.reach += few, left.level += few;
        left.count = all - few;
    }
    int64_t offset = *left.offset, end = *left.end, stride[WEFT_MOST_LEVELS], times[WEFT_MOST_LEVELS];
    uint32_t first = left.level[0], levels = left.level[1] - first, own[2] = {0, levels};
    memcpy(stride, left.stride + first, levels * sizeof *stride);
    memcpy(times, left.times + first, levels * sizeof *times);
    left.offset = &offset, left.end = left.reach = &end, left.level = own, left.stride = stride, left.times = times;
    for (uint32_t k = 0; k < levels;) {
        int64_t all = times[k], few = all / 2;
        if (all <= 1) {
            k++;
            continue;
        }
        times[k] = few;
        end -= stride[k] * (all - few);
        if (surely_meet(&left, other, apart - moved, steps)) continue;
        times[k] = all - few;
        offset += stride[k] * few;
        end += stride[k] * (all - few);
    }
    *at = moved + offset;
    *length = *left.length;
}
