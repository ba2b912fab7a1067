/* What the C library reads and writes for a program. Included where the linker sends the program's own calls (--wrap), behind
 *
 *     typedef ... library_place;         a place in the program
 *     #define HERE ...                   that of the call under way
 *     #define WATCHED ...                whether anybody wants to know
 *     #define RANGE(p, n, write, place)  n bytes at p are read or written there
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef WAITING
#define WAITING(call) (call) /* a call that may wait for another thread */
#endif
#define READ(p, n) (WATCHED ? (void)RANGE(p, n, false, HERE) : (void)0)
#define WRITTEN(p, n) (WATCHED ? (void)RANGE(p, n, true, HERE) : (void)0)
#define WRAP(type, name, ...)                                                                                          \
    extern type __real_##name(__VA_ARGS__);                                                                            \
    type __wrap_##name(__VA_ARGS__)

/* --- memory ------------------------------------------------------------------------------------------------------- */

WRAP(void *, memcpy, void *to, const void *from, size_t n) {
    READ(from, n), WRITTEN(to, n);
    return __real_memcpy(to, from, n);
}
WRAP(void *, memmove, void *to, const void *from, size_t n) {
    READ(from, n), WRITTEN(to, n);
    return __real_memmove(to, from, n);
}
WRAP(void *, memset, void *to, int byte, size_t n) {
    WRITTEN(to, n);
    return __real_memset(to, byte, n);
}
WRAP(int, memcmp, const void *a, const void *b, size_t n) {
    READ(a, n), READ(b, n);
    return __real_memcmp(a, b, n);
}
WRAP(void, qsort, void *all, size_t n, size_t size, int (*compare)(const void *, const void *)) {
    READ(all, n * size), WRITTEN(all, n * size);
    __real_qsort(all, n, size, compare);
}

/* --- strings ------------------------------------------------------------------------------------------------------ */

/* Wrap strlen() and report that the string is read. */
WRAP(size_t, strlen, const char *s) {
    size_t n = __real_strlen(s);
    READ(s, n + 1);
    return n;
}
WRAP(char *, strcpy, char *to, const char *from) {
    READ(from, __real_strlen(from) + 1), WRITTEN(to, __real_strlen(from) + 1);
    return __real_strcpy(to, from);
}
WRAP(char *, strncpy, char *to, const char *from, size_t n) {
    READ(from, strnlen(from, n) < n ? strnlen(from, n) + 1 : n), WRITTEN(to, n);
    return __real_strncpy(to, from, n);
}

/* Wrap strcat() and report what is read of both strings and written behind the first. */
WRAP(char *, strcat, char *to, const char *from) {
    if (WATCHED) {
        size_t before = __real_strlen(to), n = __real_strlen(from) + 1;
        READ(to, before + 1), READ(from, n), WRITTEN(to + before, n);
    }
    return __real_strcat(to, from);
}

/* Wrap strncat() and report what is read of both strings and written behind the first. */
WRAP(char *, strncat, char *to, const char *from, size_t most) {
    if (WATCHED) {
        size_t before = __real_strlen(to), n = strnlen(from, most);
        READ(to, before + 1), READ(from, n < most ? n + 1 : n), WRITTEN(to + before, n + 1);
    }
    return __real_strncat(to, from, most);
}

/* Return how many bytes comparing two strings looks at: up to where they differ, at most `most`. */
static size_t count_compared_bytes(const char *one, const char *other, size_t most) {
    size_t count = 0;
    while (count < most && one[count] == other[count] && one[count]) count++;
    return count < most ? count + 1 : most;
}
WRAP(int, strcmp, const char *a, const char *b) {
    READ(a, count_compared_bytes(a, b, SIZE_MAX)), READ(b, count_compared_bytes(a, b, SIZE_MAX));
    return __real_strcmp(a, b);
}
WRAP(int, strncmp, const char *a, const char *b, size_t most) {
    READ(a, count_compared_bytes(a, b, most)), READ(b, count_compared_bytes(a, b, most));
    return __real_strncmp(a, b, most);
}

/* --- input and output --------------------------------------------------------------------------------------------- */

/* Report the read of a string, up to its end or at most `most` bytes of it (-1: no limit). */
static void touch_string(const char *string, int most, library_place place) {
    size_t length = most < 0 ? __real_strlen(string) : strnlen(string, (size_t)most);
    RANGE(string, most < 0 || length < (size_t)most ? length + 1 : length, false, place);
}

/* Report the strings that a format reads, and what it counts into by %n, up to a conversion that is not known here. */
static void touch_printed_arguments(const char *format, va_list arguments, library_place place) {
    va_list rest;
    if (!(WATCHED)) return;
    va_copy(rest, arguments);
    for (const char *position = strchr(format, '%'); position; position = strchr(position, '%')) {
        position += 1 + strspn(position + 1, "-+ #0'");
        if (*position == '*') (void)va_arg(rest, int), position++;
        position += strspn(position, "0123456789");
        int most = -1;
        if (*position == '.' && position[1] == '*') most = va_arg(rest, int), position += 2;
        else if (*position == '.') most = (int)strtol(position + 1, (char **)&position, 10);
        const char *size = position;
        position += strspn(position, "hlLqjzt");
        bool wide = position != size && *size != 'h';
        if (*position && strchr("diouxXc", *position)) {
            if (wide) (void)va_arg(rest, long);
            else (void)va_arg(rest, int);
        } else if (*position && strchr("eEfFgGaA", *position)) {
            if (*size == 'L') (void)va_arg(rest, long double);
            else (void)va_arg(rest, double);
        } else if (*position == 's' && !wide) {
            const char *s = va_arg(rest, const char *);
            if (s) touch_string(s, most, place);
        } else if (*position == 'n' && size == position) {
            RANGE(va_arg(rest, int *), sizeof(int), true, place);
        } else if (*position == 'p') {
            (void)va_arg(rest, void *);
        } else if (*position != '%') {
            break;
        }
        position++;
    }
    va_end(rest);
}

/* Print into a buffer and report what is read and written; the functions below would lose their arguments, so that
 * their work is done here. Return the length, as vsnprintf(). */
static int print_to_buffer(char *buffer, size_t buffer_size, const char *format, va_list arguments,
                           library_place place) {
    touch_printed_arguments(format, arguments, place);
    int printed = vsnprintf(buffer, buffer_size, format, arguments);
    size_t length = printed < 0 ? 0 : (size_t)printed + 1;
    if (WATCHED && buffer && buffer_size) RANGE(buffer, length < buffer_size ? length : buffer_size, true, place);
    return printed;
}

/* Wrap sprintf() and report what it reads and the bytes that it writes. */
int __wrap_sprintf(char *buffer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = print_to_buffer(buffer, INT32_MAX, format, arguments, HERE);
    va_end(arguments);
    return length;
}

/* Wrap snprintf() and report what it reads and the bytes that it writes. */
int __wrap_snprintf(char *buffer, size_t buffer_size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = print_to_buffer(buffer, buffer_size, format, arguments, HERE);
    va_end(arguments);
    return length;
}

/* Print into a file and report what is read. Return the length, as vfprintf(). */
static int print_to_file(FILE *file, const char *format, va_list arguments, library_place place) {
    touch_printed_arguments(format, arguments, place);
    return vfprintf(file, format, arguments);
}

/* Wrap printf() and report what it reads. */
int __wrap_printf(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = print_to_file(stdout, format, arguments, HERE);
    va_end(arguments);
    return length;
}

/* Wrap fprintf() and report what it reads. */
int __wrap_fprintf(FILE *file, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = print_to_file(file, format, arguments, HERE);
    va_end(arguments);
    return length;
}

/* Wrap fgets() and report the bytes that it has written. */
WRAP(char *, fgets, char *to, int room, FILE *from) {
    char *got = __real_fgets(to, room, from);
    if (got) WRITTEN(to, __real_strlen(to) + 1);
    return got;
}

/* Wrap fread() and report the bytes that it has written. */
WRAP(size_t, fread, void *to, size_t size, size_t n, FILE *from) {
    size_t got = __real_fread(to, size, n, from);
    WRITTEN(to, got * size);
    return got;
}
WRAP(size_t, fwrite, const void *from, size_t size, size_t n, FILE *to) {
    READ(from, n * size);
    return __real_fwrite(from, size, n, to);
}
WRAP(int, puts, const char *s) {
    READ(s, __real_strlen(s) + 1);
    return __real_puts(s);
}
WRAP(int, fputs, const char *s, FILE *to) {
    READ(s, __real_strlen(s) + 1);
    return __real_fputs(s, to);
}

/* Wrap read() and report the bytes that it has written. */
WRAP(ssize_t, read, int fd, void *to, size_t n) {
    ssize_t got = WAITING(__real_read(fd, to, n));
    if (got > 0) WRITTEN(to, (size_t)got);
    return got;
}
WRAP(ssize_t, write, int fd, const void *from, size_t n) {
    READ(from, n);
    return WAITING(__real_write(fd, from, n));
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

WRAP(int, atoi, const char *s) {
    READ(s, __real_strlen(s) + 1);
    return __real_atoi(s);
}
WRAP(double, atof, const char *s) {
    READ(s, __real_strlen(s) + 1);
    return __real_atof(s);
}
WRAP(int, rand_r, unsigned *seed) {
    READ(seed, sizeof *seed), WRITTEN(seed, sizeof *seed);
    return __real_rand_r(seed);
}
