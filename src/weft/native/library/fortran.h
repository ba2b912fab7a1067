/* What Fortran's library reads and writes for a program: it reads what it prints, and writes what it reads; an internal unit,
 * an array that a function of the language makes, and strings likewise. Included as libc.h is, with the same words. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of an array, as gfortran hands it over (since version 8). */
struct descriptor {
    char *base;
    size_t offset, element;
    int version;
    int8_t rank, type;
    int16_t attribute;
    ptrdiff_t span;
    struct {
        ptrdiff_t stride, low, high;
    } dimensions[15];
};

/* Report an access of an array's part below one of its dimensions, row by row; in one piece where it is contiguous. */
static void touch_array_part(const struct descriptor *descriptor, char *address, int dimension, bool is_write,
                             library_place place) {
    if (dimension < 0) {
        RANGE(address, descriptor->element, is_write, place);
        return;
    }
    ptrdiff_t low = descriptor->dimensions[dimension].low, high = descriptor->dimensions[dimension].high;
    ptrdiff_t step = descriptor->dimensions[dimension].stride *
                     (descriptor->span ? descriptor->span : (ptrdiff_t)descriptor->element);
    if (!dimension && step == (ptrdiff_t)descriptor->element) {
        if (high >= low) RANGE(address, (size_t)(high - low + 1) * descriptor->element, is_write, place);
        return;
    }
    for (ptrdiff_t i = low; i <= high; i++, address += step)
        touch_array_part(descriptor, address, dimension - 1, is_write, place);
}

/* Report an access of a whole array. An array that the library will make has no memory yet. */
static void touch_array(const struct descriptor *descriptor, bool is_write, library_place place) {
    if (WATCHED && descriptor && descriptor->base && descriptor->rank > 0 && descriptor->rank <= 15)
        touch_array_part(descriptor, descriptor->base, descriptor->rank - 1, is_write, place);
}

/* Report an access of bytes, if anybody wants to know and there are some. */
static void touch_bytes(const char *bytes, size_t length, bool is_write, library_place place) {
    if (WATCHED && bytes) RANGE(bytes, length, is_write, place);
}

#define LIBRARY(type, name, ...)                                                                                       \
    extern type __real__gfortran_##name(__VA_ARGS__) __attribute__((weak));                                            \
    type __wrap__gfortran_##name(__VA_ARGS__)

/* --- input and output --------------------------------------------------------------------------------------------- */

#define SCALAR(name, size)                                                                                             \
    LIBRARY(void, transfer_##name##_write, void *io, void *p, int kind) {                                              \
        touch_bytes(p, (size_t)(size), false, HERE);                                                                   \
        __real__gfortran_transfer_##name##_write(io, p, kind);                                                         \
    }                                                                                                                  \
    LIBRARY(void, transfer_##name, void *io, void *p, int kind) {                                                      \
        touch_bytes(p, (size_t)(size), true, HERE);                                                                    \
        __real__gfortran_transfer_##name(io, p, kind);                                                                 \
    }
SCALAR(integer, kind)
SCALAR(logical, kind)
SCALAR(real, kind)
SCALAR(complex, 2 * kind)
SCALAR(character, kind) /* kind: its length */

/* Wrap the output of an array and report that it is read. */
LIBRARY(void, transfer_array_write, void *io, void *p, int kind, size_t length) {
    touch_array(p, false, HERE);
    __real__gfortran_transfer_array_write(io, p, kind, length);
}

/* Wrap the input of an array and report that it is written. */
LIBRARY(void, transfer_array, void *io, void *p, int kind, size_t length) {
    touch_array(p, true, HERE);
    __real__gfortran_transfer_array(io, p, kind, length);
}

/* A statement, as gfortran hands it over. An internal unit that is an array has a record for each element. */
struct statement {
    int32_t flags, number;
    const char *file;
    int32_t line;
    size_t message_length;
    char *message;
    int32_t *status;
    int64_t record;
    void *size, *length;
    struct descriptor *units;
    const char *format;
    size_t format_length, advance_length;
    const char *advance;
    char *unit;
    size_t unit_length;
};
enum { HAS_STATUS = 1 << 5, INTERNAL = 1 << 14 };

/* Report what a statement of input or output accesses beside its items: an internal unit, and the variable of
 * IOSTAT. */
static void touch_statement(const struct statement *parameters, bool is_write, library_place place) {
    if (parameters->flags & INTERNAL) touch_bytes(parameters->unit, parameters->unit_length, is_write, place);
    if (parameters->flags & HAS_STATUS)
        touch_bytes((const char *)parameters->status, sizeof *parameters->status, true, place);
}

/* Wrap the begin of a WRITE statement and report what it accesses beside its items. */
LIBRARY(void, st_write, struct statement *s) {
    touch_statement(s, true, HERE);
    __real__gfortran_st_write(s);
}

/* Wrap the begin of a READ statement and report what it accesses beside its items. */
LIBRARY(void, st_read, struct statement *s) {
    touch_statement(s, false, HERE);
    __real__gfortran_st_read(s);
}

/* --- strings ------------------------------------------------------------------------------------------------------ */

/* Wrap the comparison of two strings and report that both are read. */
LIBRARY(int, compare_string, size_t n, const char *a, size_t m, const char *b) {
    touch_bytes(a, n, false, HERE), touch_bytes(b, m, false, HERE);
    return __real__gfortran_compare_string(n, a, m, b);
}

/* Wrap the concatenation of two strings and report both reads and the write. */
LIBRARY(void, concat_string, size_t length, char *to, size_t n, const char *a, size_t m, const char *b) {
    touch_bytes(a, n, false, HERE), touch_bytes(b, m, false, HERE);
    touch_bytes(to, length, true, HERE);
    __real__gfortran_concat_string(length, to, n, a, m, b);
}

/* Wrap TRIM and report that the string is read. */
LIBRARY(void, string_trim, size_t *length, char **to, size_t n, const char *from) {
    touch_bytes(from, n, false, HERE);
    __real__gfortran_string_trim(length, to, n, from);
}

/* Wrap LEN_TRIM and report that the string is read. */
LIBRARY(size_t, string_len_trim, size_t n, const char *from) {
    touch_bytes(from, n, false, HERE);
    return __real__gfortran_string_len_trim(n, from);
}
#define ADJUSTED(name)                                                                                                 \
    LIBRARY(void, name, char *to, size_t n, const char *from) {                                                        \
        touch_bytes(from, n, false, HERE), touch_bytes(to, n, true, HERE);                                             \
        __real__gfortran_##name(to, n, from);                                                                          \
    }
ADJUSTED(adjustl)
ADJUSTED(adjustr)
#define SEARCHED(name)                                                                                                 \
    LIBRARY(size_t, name, size_t n, const char *a, size_t m, const char *b, int back) {                                \
        touch_bytes(a, n, false, HERE), touch_bytes(b, m, false, HERE);                                                \
        return __real__gfortran_##name(n, a, m, b, back);                                                              \
    }
SEARCHED(string_index)
SEARCHED(string_scan)
SEARCHED(string_verify)

/* --- functions of arrays ------------------------------------------------------------------------------------------ */

/* The first argument is written, the next ones are read; what follows them goes through as it is. */
#define ARRAYS(name, reads)                                                                                            \
    LIBRARY(void, name, void *to, void *a, void *b, void *c, void *d, void *e) {                                       \
        void *given[] = {a, b, c, d, e};                                                                               \
        for (int i = 0; i < (reads); i++) touch_array(given[i], false, HERE);                                          \
        touch_array(to, true, HERE);                                                                                   \
        __real__gfortran_##name(to, a, b, c, d, e);                                                                    \
    }
#define NUMBERS(name, reads)                                                                                           \
    ARRAYS(name##_i4, reads)                                                                                           \
    ARRAYS(name##_i8, reads)                                                                                           \
    ARRAYS(name##_r4, reads)                                                                                           \
    ARRAYS(name##_r8, reads)
#define VALUES(name, reads)                                                                                            \
    NUMBERS(name, reads)                                                                                               \
    ARRAYS(name##_c4, reads)                                                                                           \
    ARRAYS(name##_c8, reads)
VALUES(matmul, 2)
VALUES(sum, 1)
VALUES(product, 1)
NUMBERS(maxval, 1)
NUMBERS(minval, 1)
ARRAYS(matmul_l4, 2)
ARRAYS(any_l4, 1)
ARRAYS(all_l4, 1)
ARRAYS(count_4_l, 1)
NUMBERS(maxloc0_4, 1)
NUMBERS(minloc0_4, 1)
NUMBERS(maxloc1_4, 1)
NUMBERS(minloc1_4, 1)
ARRAYS(pack, 3)
ARRAYS(unpack0, 2)
ARRAYS(unpack1, 3)
ARRAYS(cshift0_4, 1)
ARRAYS(cshift0_8, 1)
ARRAYS(cshift1_4, 2)
ARRAYS(cshift1_8, 2)
ARRAYS(eoshift0_4, 1)
ARRAYS(eoshift0_8, 1)
ARRAYS(eoshift1_4, 2)
ARRAYS(eoshift1_8, 2)
ARRAYS(spread, 1)
ARRAYS(spread_scalar, 0)
ARRAYS(reshape, 2)
ARRAYS(reshape_4, 2)
ARRAYS(reshape_8, 2)
ARRAYS(reshape_r4, 2)
ARRAYS(reshape_r8, 2)
ARRAYS(reshape_c4, 2)
ARRAYS(reshape_c8, 2)

/* --- random numbers ----------------------------------------------------------------------------------------------- */

#define RANDOM(kind)                                                                                                   \
    LIBRARY(void, random_r##kind, void *to) {                                                                          \
        touch_bytes(to, kind, true, HERE);                                                                             \
        __real__gfortran_random_r##kind(to);                                                                           \
    }                                                                                                                  \
    LIBRARY(void, arandom_r##kind, void *to) {                                                                         \
        touch_array(to, true, HERE);                                                                                   \
        __real__gfortran_arandom_r##kind(to);                                                                          \
    }
RANDOM(4)
RANDOM(8)
