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

static int64_t min(int64_t one, int64_t other) { return one < other ? one : other; }
static int64_t max(int64_t one, int64_t other) { return one > other ? one : other; }

static int64_t floor_div(int64_t dividend, int64_t divisor) { return dividend / divisor - (dividend % divisor < 0); }
static int64_t ceil_div(int64_t dividend, int64_t divisor) { return dividend / divisor + (dividend % divisor > 0); }

/* Return the greatest common divisor (Euclid). */
static int64_t greatest_common_divisor(int64_t one, int64_t other) {
    while (other) {
        int64_t remainder = one % other;
        one = other, other = remainder;
    }
    return one;
}

/* Add a stride that may be taken 0 to times - 1 times. If one stride divides another and covers it without gaps, both
 * are merged. */
static void add_stride(struct sums *sums, int64_t stride, int64_t times) {
    if (times <= 1 || stride <= 0) return;
    for (int i = 0; i < sums->n; i++) {
        int64_t small = min(sums->stride[i], stride), great = max(sums->stride[i], stride);
        int64_t few = sums->stride[i] < stride ? sums->times[i] : times,
                many = sums->stride[i] < stride ? times : sums->times[i];
        if (great % small || great / small > few) continue;
        sums->n--;
        memmove(&sums->stride[i], &sums->stride[i + 1], sizeof sums->stride[0] * (size_t)(sums->n - i));
        memmove(&sums->times[i], &sums->times[i + 1], sizeof sums->times[0] * (size_t)(sums->n - i));
        add_stride(sums, small, few + (many - 1) * (great / small));
        return;
    }
    int index = sums->n++;
    for (; index > 0 && sums->stride[index - 1] < stride; index--) {
        sums->stride[index] = sums->stride[index - 1];
        sums->times[index] = sums->times[index - 1];
    }
    sums->stride[index] = stride;
    sums->times[index] = times;
}

/* For each stride, compute the greatest sum and the common divisor of it and all smaller ones. */
static void compute_rests(struct sums *sums) {
    sums->rest[sums->n] = 0, sums->gcd[sums->n] = 0;
    for (int k = sums->n - 1; k >= 0; k--) {
        sums->rest[k] = sums->rest[k + 1] + sums->stride[k] * (sums->times[k] - 1);
        sums->gcd[k] = greatest_common_divisor(sums->stride[k], sums->gcd[k + 1]);
    }
}

/* Return the least t >= 0 for which t * factor modulo `modulus` lies in [low, high]; -1 if there is none. 0 < low <=
 * high < modulus. */
static int64_t find_first_multiple(int64_t factor, int64_t modulus, int64_t low, int64_t high) {
    if (low == 0) return 0;
    factor %= modulus;
    if (factor == 0) return -1;
    if (factor > modulus - factor) return find_first_multiple(modulus - factor, modulus, modulus - high, modulus - low);
    int64_t multiple = ceil_div(low, factor);
    if ((__int128)multiple * factor <= high) return multiple;
    int64_t turns = find_first_multiple(modulus % factor, factor, (factor - high % factor) % factor,
                                        (factor - low % factor) % factor);
    if (turns < 0) return -1;
    __int128 found = ((__int128)turns * modulus + low + factor - 1) / factor;
    return found > INT64_MAX ? -1 : (int64_t)found;
}

/* Return whether a sum of multiples of the last two strides, k and k + 1, lies in [low, high]. */
static bool can_two_strides_sum_into(const struct sums *sums, int k, int64_t low, int64_t high) {
    int64_t S = sums->stride[k], T = sums->stride[k + 1], small_sum = sums->rest[k + 1], last = sums->times[k] - 1;
    if (max(ceil_div(low, S), 0) <= min(floor_div(high, S), last)) return true; /* nothing of T */
    if (max(ceil_div(low - small_sum, S), 0) <= min(floor_div(high - small_sum, S), last)) return true; /* all of T */
    /* For all others the interval lies between nothing and all of T: is a multiple of T in it? */
    int64_t first = max(floor_div(high - small_sum, S) + 1, 0), last_tried = min(ceil_div(low, S) - 1, last);
    if (first > last_tried) return false;
    int64_t begin = (high - first * S) % T, wide = high - low; /* positive there */
    if (begin <= wide) return true;
    int64_t found = find_first_multiple(T - S % T, T, T - begin, T - begin + wide);
    return found >= 0 && found <= last_tried - first;
}

/* Return whether a sum of multiples of the strides from k on lies in [low, high]: 1 or 0, or -1 if the step budget runs
 * out. */
static int can_strides_sum_into(const struct sums *sums, int k, int64_t low, int64_t high) {
    low = max(low, 0), high = min(high, sums->rest[k]);
    if (low > high) return 0;
    if (*sums->steps == 0) return -1;
    --*sums->steps;
    if (low == 0 || high == sums->rest[k]) return 1;
    if (floor_div(high, sums->gcd[k]) < ceil_div(low, sums->gcd[k])) return 0;
    if (k == sums->n - 1) return 1; /* a multiple of its stride */
    if (k == sums->n - 2) return can_two_strides_sum_into(sums, k, low, high);
    int64_t S = sums->stride[k];
    int64_t first = max(ceil_div(low - sums->rest[k + 1], S), 0), last = min(floor_div(high, S), sums->times[k] - 1);
    int answer = 0;
    for (int64_t x = first; x <= last; x++) {
        int found = can_strides_sum_into(sums, k + 1, low - x * S, high - x * S);
        if (found > 0) return 1;
        if (found < 0) answer = -1;
        if (!*sums->steps) return -1;
    }
    return answer;
}

/* Return whether a sum of multiples (each 0 to times - 1) of strides lies in [low, high]: 1 or 0, or -1 if the budget
 * `*steps` runs out. */
int weft_can_strides_sum_into(uint64_t count, const int64_t *stride, const int64_t *times, int64_t low, int64_t high,
                              uint64_t *steps) {
    struct sums sums = {.steps = steps};
    if (count > LEVELS) return -1;
    for (uint64_t i = 0; i < count; i++) add_stride(&sums, stride[i], times[i]);
    compute_rests(&sums);
    return can_strides_sum_into(&sums, 0, low, high);
}

/* A layout, and the outer stride as far as it is a level of its parts. */
struct side {
    const struct weft_layout *of;
    int64_t stride, times;
};

/* Return the distance from the first to the last repetition of a layout. */
static int64_t find_outer_length(const struct side *side) {
    return side->times > 1 ? side->stride * (side->times - 1) : 0;
}

/* Return whether a part of one layout and a part of another one share a byte: 1 or 0, or -1 if the step budget runs
 * out. `apart`: bytes from the start of one layout to the other's. */
static int do_parts_meet(struct side side, uint64_t part, struct side other_side, uint64_t other_part, int64_t apart,
                         uint64_t *steps) {
    const struct weft_layout *layout = side.of, *other_layout = other_side.of;
    struct sums sums = {.steps = steps};
    int64_t distance = apart + other_layout->end[other_part] - other_layout->length[other_part] +
                       find_outer_length(&other_side) - layout->offset[part];
    add_stride(&sums, side.stride, side.times);
    add_stride(&sums, other_side.stride, other_side.times);
    for (uint32_t i = layout->level[part]; i < layout->level[part + 1]; i++)
        add_stride(&sums, layout->stride[i], layout->times[i]);
    for (uint32_t i = other_layout->level[other_part]; i < other_layout->level[other_part + 1]; i++)
        add_stride(&sums, other_layout->stride[i], other_layout->times[i]);
    compute_rests(&sums);
    return can_strides_sum_into(&sums, 0, distance - layout->length[part] + 1,
                                distance + other_layout->length[other_part] - 1);
}

/* Return whether any parts of two layouts share a byte, checking only pairs that are near each other: 1 or 0, or -1 if
 * the step budget runs out. */
static int do_layouts_share_byte(struct side side, struct side other_side, int64_t apart, uint64_t *steps) {
    if (side.of->count > other_side.of->count) return do_layouts_share_byte(other_side, side, -apart, steps);
    int answer = 0;
    for (uint64_t part = 0; part < side.of->count; part++) {
        int64_t low = side.of->offset[part] - apart, high = side.of->end[part] + find_outer_length(&side) - apart;
        uint64_t other_part = 0, behind = other_side.of->count;
        while (other_part < behind) { /* the first that begins after it */
            uint64_t middle = other_part + (behind - other_part) / 2;
            if (other_side.of->offset[middle] < high) other_part = middle + 1;
            else behind = middle;
        }
        if (*steps == 0) return -1;
        --*steps;
        for (; other_part > 0 && other_side.of->reach[other_part - 1] + find_outer_length(&other_side) > low;
             other_part--) {
            if (other_side.of->end[other_part - 1] + find_outer_length(&other_side) <= low) {
                if (*steps == 0) return -1;
                --*steps;
                continue;
            }
            int found = do_parts_meet(side, part, other_side, other_part - 1, apart, steps);
            if (found > 0) return 1;
            if (found < 0) answer = -1;
            if (*steps == 0) return -1;
        }
    }
    return answer;
}

/* Return whether two layouts (sets of bytes that repeat at strides), the other one `apart` bytes after the first, share
 * a byte: 1 or 0, or -1 if the budget `*steps` runs out. */
int weft_do_layouts_meet(const struct weft_layout *one, const struct weft_layout *other, int64_t apart,
                         uint64_t *steps) {
    if (apart >= one->high || apart <= -other->high) return 0;
    if (!one->count || !other->count) return -1;
    struct side side = {one, one->outer_stride, one->outer_times},
                other_side = {other, other->outer_stride, other->outer_times};
    int64_t stride = max(side.times > 1 ? side.stride : 0, other_side.times > 1 ? other_side.stride : 0);
    bool have_one_stride = side.times <= 1 || other_side.times <= 1 || side.stride == other_side.stride;
    int64_t inner_a = one->high - find_outer_length(&side), inner_b = other->high - find_outer_length(&other_side);
    if (!stride || !have_one_stride || (inner_a + inner_b) / stride > 64)
        return do_layouts_share_byte(side, other_side, apart, steps);
    /* Elements of one length: where some of the other begin as seen from the one, of which few are near it. */
    int64_t first = max(ceil_div(-inner_b + 1 - apart, stride), 1 - max(side.times, 1));
    int64_t last = min(floor_div(inner_a - 1 - apart, stride), max(other_side.times, 1) - 1);
    int answer = 0;
    side.times = other_side.times = 1;
    for (int64_t k = first; k <= last; k++) {
        int found = do_layouts_share_byte(side, other_side, apart + k * stride, steps);
        if (found > 0) return 1;
        if (found < 0) answer = -1;
    }
    return answer;
}

/* Return whether two layouts provably share a byte within a number of steps. */
static bool do_surely_meet(const struct weft_layout *one, const struct weft_layout *other, int64_t apart,
                           uint64_t steps) {
    return weft_do_layouts_meet(one, other, apart, &steps) > 0;
}

/* Find the first block of layout `one` that shares a byte with `other`, by bisection: its offset and length. */
void weft_find_first_shared_block(const struct weft_layout *one, const struct weft_layout *other, int64_t apart,
                                  uint64_t steps, int64_t *first_byte, int64_t *length) {
    struct weft_layout rest = *one;
    int64_t inner = one->high - one->outer_stride * (one->outer_times - 1), moved = 0;
    while (rest.outer_times > 1) {
        int64_t count = rest.outer_times;
        rest.outer_times = count / 2;
        rest.high = inner + rest.outer_stride * (rest.outer_times - 1);
        if (do_surely_meet(&rest, other, apart - moved, steps)) continue;
        moved += rest.outer_stride * rest.outer_times;
        rest.outer_times = count - rest.outer_times;
        rest.high = inner + rest.outer_stride * (rest.outer_times - 1);
    }
    while (rest.count > 1) {
        uint64_t count = rest.count, half = count / 2;
        rest.count = half;
        if (do_surely_meet(&rest, other, apart - moved, steps)) continue;
        rest.offset += half, rest.length += half, rest.end += half, rest.reach += half, rest.level += half;
        rest.count = count - half;
    }
    int64_t offset = *rest.offset, end = *rest.end, stride[WEFT_MOST_LEVELS], times[WEFT_MOST_LEVELS];
    uint32_t first = rest.level[0], levels = rest.level[1] - first, own[2] = {0, levels};
    memcpy(stride, rest.stride + first, levels * sizeof *stride);
    memcpy(times, rest.times + first, levels * sizeof *times);
    rest.offset = &offset, rest.end = rest.reach = &end, rest.level = own, rest.stride = stride, rest.times = times;
    for (uint32_t k = 0; k < levels;) {
        int64_t count = times[k], half = count / 2;
        if (count <= 1) {
            k++;
            continue;
        }
        times[k] = half;
        end -= stride[k] * (count - half);
        if (do_surely_meet(&rest, other, apart - moved, steps)) continue;
        times[k] = count - half;
        offset += stride[k] * half;
        end += stride[k] * (count - half);
    }
    *first_byte = moved + offset;
    *length = *rest.length;
}
