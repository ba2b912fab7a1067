/* Hashes of numbers that do not depend on how an array is cut up: that of an array is the sum of those of its elements,
 * each of which holds its place in the global array. Zeros of both signs are one number, and so are all that are not. */
#ifndef WEFT_VALUE_HASH_H
#define WEFT_VALUE_HASH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Odd, without structure (digits of pi): what one step in a dimension adds to a place. */
static const uint64_t weft_place_step[9] = {0x243f6a8885a308d3u, 0x13198a2e03707345u, 0xa4093822299f31d1u,
                                            0x082efa98ec4e6c89u, 0x452821e638d01377u, 0xbe5466cf34e90c6du,
                                            0xc0ac29b7c97c50ddu, 0x3f84d5b5b5470917u, 0x9216d5d98979fb1bu};

/* Hash 64 bits with the finalizer of MurmurHash3 (Appleby 2011): each input bit changes about half of the output
 * bits. */
static inline uint64_t weft_value_mix(uint64_t bits) {
    bits = (bits ^ (bits >> 33)) * 0xff51afd7ed558ccdu;
    bits = (bits ^ (bits >> 33)) * 0xc4ceb9fe1a85ec53u;
    return bits ^ (bits >> 33);
}

/* Return the bits of a double; both zeros give the same bits, and so do all NaNs. */
static inline uint64_t weft_bits_f64(const void *bytes) {
    double number;
    uint64_t bits;
    memcpy(&number, bytes, sizeof number);
    number = number != number ? __builtin_nan("") : number == 0 ? 0.0 : number;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* Return the bits of a float; both zeros give the same bits, and so do all NaNs. */
static inline uint64_t weft_bits_f32(const void *bytes) {
    float number;
    uint32_t bits;
    memcpy(&number, bytes, sizeof number);
    number = number != number ? __builtin_nanf("") : number == 0 ? 0.0f : number;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* Return 64 bits for a long double: those of the nearest double, combined with those of the remainder. */
static inline uint64_t weft_bits_f80(const void *bytes) {
    long double number;
    memcpy(&number, bytes, sizeof number);
    double near = (double)number, rest = (double)(number - (long double)near);
    return weft_bits_f64(&near) ^ (number - number == 0 ? weft_bits_f64(&rest) << 1 : 0);
}

/* Return the bits of an integer of up to 8 bytes; of a larger one the first 8 bytes. */
static inline uint64_t weft_bits_int(const unsigned char *bytes, unsigned size) {
    uint64_t bits = 0;
    memcpy(&bits, bytes, size < 8 ? size : 8);
    return bits;
}

/* Return whether numbers of this type (numpy's letter) and size in bytes exist. */
static inline bool weft_type_known(int type, unsigned size) {
    switch (type) {
    case 'b': return size == 1;
    case 'i':
    case 'u': return size == 1 || size == 2 || size == 4 || size == 8;
    case 'f': return size == 4 || size == 8 || size == 16;
    case 'c': return size == 8 || size == 16 || size == 32;
    default: return false;
    }
}

#define WEFT_HASH_LOOP(bits)                                                                                           \
    for (int64_t i = 0; i < n; i++, at += stride, place += step) sum += weft_value_mix(bits + place)

/* Return the sum of the hashes of `n` elements that lie `stride` bytes apart. Each hash includes the element's position
 * in the global array: `place` for the first, `step` more for each next one. */
static inline uint64_t weft_hash_run(const unsigned char *at, int64_t n, int64_t stride, int type, unsigned size,
                                     uint64_t place, uint64_t step) {
    uint64_t sum = 0;
    if (type == 'c')
        return weft_hash_run(at, n, stride, 'f', size / 2, place, step) +
               weft_hash_run(at + size / 2, n, stride, 'f', size / 2, place + weft_place_step[8], step);
    if (type == 'f' && size == 8 && stride == 8) {
        stride = 8; /* known to the compiler from here on */
        WEFT_HASH_LOOP(weft_bits_f64(at));
    } else if (type == 'f' && size == 8) WEFT_HASH_LOOP(weft_bits_f64(at));
    else if (type == 'f' && size == 4) WEFT_HASH_LOOP(weft_bits_f32(at));
    else if (type == 'f' && size == 16) WEFT_HASH_LOOP(weft_bits_f80(at));
    else if (size == 8) WEFT_HASH_LOOP(weft_bits_int(at, 8));
    else if (size == 4) WEFT_HASH_LOOP(weft_bits_int(at, 4));
    else WEFT_HASH_LOOP(weft_bits_int(at, size));
    return sum;
}

#endif
