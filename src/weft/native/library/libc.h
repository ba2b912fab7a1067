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
WRAP(char *, strcat, char *to, const char *from) {
    if (WATCHED) {
        size_t before = __real_strlen(to), n = __real_strlen(from) + 1;
        READ(to, before + 1), READ(from, n), WRITTEN(to + before, n);
    }
    return __real_strcat(to, from);
}
WRAP(char *, strncat, char *to, const char *from, size_t most) {
    if (WATCHED) {
        size_t before = __real_strlen(to), n = strnlen(from, most);
        READ(to, before + 1), READ(from, n < most ? n + 1 : n), WRITTEN(to + before, n + 1);
    }
    return __real_strncat(to, from, most);
}
/* What comparing looks at: up to where two strings differ. */
static size_t alike(const char *a, const char *b, size_t most) {
    size_t n = 0;
    while (n < most && a[n] == b[n] && a[n]) n++;
    return n < most ? n + 1 : most;
}
WRAP(int, strcmp, const char *a, const char *b) {
    READ(a, alike(a, b, SIZE_MAX)), READ(b, alike(a, b, SIZE_MAX));
    return __real_strcmp(a, b);
}
WRAP(int, strncmp, const char *a, const char *b, size_t most) {
    READ(a, alike(a, b, most)), READ(b, alike(a, b, most));
    return __real_strncmp(a, b, most);
}

/* --- input and output --------------------------------------------------------------------------------------------- */

static void string_read(const char *s, int most, library_place place) {
    size_t n = most < 0 ? __real_strlen(s) : strnlen(s, (size_t)most);
    RANGE(s, most < 0 || n < (size_t)most ? n + 1 : n, false, place);
}

/* The strings that a format reads, and what it counts into by %n, up to a conversion that is not known here. */
static void arguments_used(const char *format, va_list given, library_place place) {
    va_list rest;
    if (!(WATCHED)) return;
    va_copy(rest, given);
    for (const char *at = strchr(format, '%'); at; at = strchr(at, '%')) {
        at += 1 + strspn(at + 1, "-+ #0'");
        if (*at == '*') (void)va_arg(rest, int), at++;
        at += strspn(at, "0123456789");
        int most = -1;
        if (*at == '.' && at[1] == '*') most = va_arg(rest, int), at += 2;
        else if (*at == '.') most = (int)strtol(at + 1, (char **)&at, 10);
        const char *size = at;
        at += strspn(at, "hlLqjzt");
        bool wide = at != size && *size != 'h';
        if (*at && strchr("diouxXc", *at)) {
            if (wide) (void)va_arg(rest, long);
            else (void)va_arg(rest, int);
        } else if (*at && strchr("eEfFgGaA", *at)) {
            if (*size == 'L') (void)va_arg(rest, long double);
            else (void)va_arg(rest, double);
        } else if (*at == 's' && !wide) {
            const char *s = va_arg(rest, const char *);
            if (s) string_read(s, most, place);
        } else if (*at == 'n' && size == at) {
            RANGE(va_arg(rest, int *), sizeof(int), true, place);
        } else if (*at == 'p') {
            (void)va_arg(rest, void *);
        } else if (*at != '%') {
            break;
        }
        at++;
    }
    va_end(rest);
}

/* These would lose their arguments: what they are is done here. */
static int printed(char *to, size_t room, const char *format, va_list given, library_place place) {
    arguments_used(format, given, place);
    int n = vsnprintf(to, room, format, given);
    size_t length = n < 0 ? 0 : (size_t)n + 1;
    if (WATCHED && to && room) RANGE(to, length < room ? length : room, true, place);
    return n;
}
int __wrap_sprintf(char *to, const char *format, ...) {
    va_list given;
    va_start(given, format);
    int n = printed(to, INT32_MAX, format, given, HERE);
    va_end(given);
    return n;
}
int __wrap_snprintf(char *to, size_t room, const char *format, ...) {
    va_list given;
    va_start(given, format);
    int n = printed(to, room, format, given, HERE);
    va_end(given);
    return n;
}
static int put_out(FILE *to, const char *format, va_list given, library_place place) {
    arguments_used(format, given, place);
    return vfprintf(to, format, given);
}
int __wrap_printf(const char *format, ...) {
    va_list given;
    va_start(given, format);
    int n = put_out(stdout, format, given, HERE);
    va_end(given);
    return n;
}
int __wrap_fprintf(FILE *to, const char *format, ...) {
    va_list given;
    va_start(given, format);
    int n = put_out(to, format, given, HERE);
    va_end(given);
    return n;
}
WRAP(char *, fgets, char *to, int room, FILE *from) {
    char *got = __real_fgets(to, room, from);
    if (got) WRITTEN(to, __real_strlen(to) + 1);
    return got;
}
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

WRAP(ssize_t, read, int fd, void *to, size_t n) {
    ssize_t got = __real_read(fd, to, n);
    if (got > 0) WRITTEN(to, (size_t)got);
    return got;
}
WRAP(ssize_t, write, int fd, const void *from, size_t n) {
    READ(from, n);
    return __real_write(fd, from, n);
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
