/* libc's functions that make or fill memory, as the program's own objects call them (the linker's --wrap).
 *
 * A new block has no values and is filled with a pattern; behind it lies a red zone, so that an index beyond the last
 * row is noticed. Only programs are linked with this, not the library that Python loads.
 */
#include "access.h"
#include "blocks.h"
#include "cells.h"
#include "loops.h"
#include "objects.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *__real_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__real_realloc(void *, size_t);
void __real_free(void *);
void *__real_aligned_alloc(size_t, size_t);
int __real_posix_memalign(void **, size_t, size_t);
void *__real_memcpy(void *, const void *, size_t);
void *__real_memmove(void *, const void *, size_t);
void *__real_memset(void *, int, size_t);
size_t __real_fwrite(const void *, size_t, size_t, FILE *);
ssize_t __real_write(int, const void *, size_t);
int __real_puts(const char *);
int __real_fputs(const char *, FILE *);

void *__wrap_memcpy(void *, const void *, size_t);

static size_t zone(size_t size) /* as long as a row of a square array of doubles, about */
{
    size_t n = 64 + size / 16;
    return (n < 1 << 16 ? n : 1 << 16) & ~(size_t)7;
}

static void *made(void *p, size_t size, size_t from, bool cleared) {
    if (!p || now.off) return p;
    uintptr_t low = (uintptr_t)p, end = (low + size + 7) & ~(uintptr_t)7;
    if (cleared) mark(low + from, end, 0);
    else if (from < size) weft_check_clear((char *)p + from, size - from);
    mark(end, low + malloc_usable_size(p), REDZONE);
    mark(low - 8, low, REDZONE); /* the allocator's own word: blocks.c finds the beginning by it */
    blocks_made();
    if (size >= NAMED) /* a parameter may be a view of it */
        weft_check_data(0, p, size);
    return p;
}

static void gone(void *p) {
    if (!p || now.off) return;
    uintptr_t low = (uintptr_t)p, high = low + malloc_usable_size(p);
    for (struct object *o; (o = object_after(low)) && o->low < high;) object_drop(o);
    mark(low - 8, high, 0);
}

void *__wrap_malloc(size_t size) { return made(__real_malloc(size + zone(size)), size, 0, false); }

void *__wrap_calloc(size_t n, size_t size) {
    size_t all;
    if (__builtin_mul_overflow(n, size, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    return made(__real_calloc(1, all + zone(all)), all, 0, true);
}

void *__wrap_realloc(void *old, size_t size) {
    if (!old) return __wrap_malloc(size);
    if (now.off) return __real_realloc(old, size + zone(size));
    void *p = __wrap_malloc(size);
    if (!p) return NULL;
    size_t had = malloc_usable_size(old);
    __wrap_memcpy(p, old, had < size ? had : size);
    gone(old);
    __real_free(old);
    return p;
}

void *__wrap_reallocarray(void *old, size_t n, size_t size) {
    size_t all;
    if (__builtin_mul_overflow(n, size, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    return __wrap_realloc(old, all);
}

void __wrap_free(void *p) {
    gone(p);
    __real_free(p);
}

/* C++'s new and delete. Where there is no memory a program of C++ ends, too. */
void *__wrap__Znwm(size_t size) {
    void *p = __wrap_malloc(size ? size : 1);
    if (!p) abort();
    return p;
}

void *__wrap__Znam(size_t size) { return __wrap__Znwm(size); }
void __wrap__ZdlPv(void *p) { __wrap_free(p); }
void __wrap__ZdaPv(void *p) { __wrap_free(p); }
void __wrap__ZdlPvm(void *p, size_t size) { (void)size, __wrap_free(p); }
void __wrap__ZdaPvm(void *p, size_t size) { (void)size, __wrap_free(p); }

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return made(__real_aligned_alloc(alignment, size), size, 0, false);
}

int __wrap_posix_memalign(void **p, size_t alignment, size_t size) {
    int status = __real_posix_memalign(p, alignment, size + zone(size));
    if (status == 0) made(*p, size, 0, false);
    return status;
}

#define PLACE ((uintptr_t)__builtin_return_address(0))

/* What a copy reads is not judged, but it hands on that there is no value: garbage may be copied, not used. */
static void copied(void *to, const void *from, size_t n, uintptr_t place) {
    if (now.off) return;
    access_range((uintptr_t)to, n, true, place);
    uintptr_t t = (uintptr_t)to, f = (uintptr_t)from;
    if (t % 8 == 0 && f % 8 == 0)
        for (; n >= 8; t += 8, f += 8, n -= 8)
            if (cell8(f)->written == UNINITIALISED || cell8(f)->written == WAS_PRIVATE)
                cell8(t)->written = cell8(f)->written;
}

static void filled(void *to, size_t n, uintptr_t place) {
    if (!now.off) access_range((uintptr_t)to, n, true, place);
}

/* clang from 15 on has names of its own for the copies that it makes itself. */
#define COPIES(prefix)                                                                                                 \
    void *prefix##memcpy(void *to, const void *from, size_t n) {                                                       \
        copied(to, from, n, PLACE);                                                                                    \
        return __real_memcpy(to, from, n);                                                                             \
    }                                                                                                                  \
    void *prefix##memmove(void *to, const void *from, size_t n) {                                                      \
        filled(to, n, PLACE);                                                                                          \
        return __real_memmove(to, from, n);                                                                            \
    }                                                                                                                  \
    void *prefix##memset(void *to, int byte, size_t n) {                                                               \
        filled(to, n, PLACE);                                                                                          \
        return __real_memset(to, byte, n);                                                                             \
    }
static void elements_out(uintptr_t from, size_t n, size_t element, uintptr_t place) {
    for (uintptr_t high = from + n; from + element <= high; from += element) access_range(from, element, false, place);
}

/* What is put out is read by the library, without hooks; elements of distributed arrays come from everywhere. */
static void put_out(const void *from, size_t n, uintptr_t place) {
    const struct object *o = now.off || here.started ? NULL : object_at((uintptr_t)from);
    if (!o) return;
    if (o->distributed && (o->element == 4 || o->element == 8)) {
        weft_check_io_begin();
        elements_out((uintptr_t)from, n, o->element, place);
        weft_check_io_end();
    } else {
        put_out_whole((uintptr_t)from, n, place);
    }
}

size_t __wrap_fwrite(const void *from, size_t size, size_t n, FILE *to) {
    put_out(from, size * n, PLACE);
    return __real_fwrite(from, size, n, to);
}

ssize_t __wrap_write(int to, const void *from, size_t n) {
    put_out(from, n, PLACE);
    return __real_write(to, from, n);
}

/* A text up to its end: it has no gaps. */
static void text_out(const char *text, uintptr_t place) {
    const struct object *o = now.off || here.started ? NULL : object_at((uintptr_t)text);
    if (!o) return;
    weft_check_io_begin();
    elements_out((uintptr_t)text, strnlen(text, o->high - (uintptr_t)text - 1) + 1, 1, place);
    weft_check_io_end();
}

int __wrap_puts(const char *text) {
    text_out(text, PLACE);
    return __real_puts(text);
}

int __wrap_fputs(const char *text, FILE *to) {
    text_out(text, PLACE);
    return __real_fputs(text, to);
}

COPIES(__wrap_)
COPIES(__tsan_)
