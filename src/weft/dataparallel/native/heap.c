/* libc's functions that make or fill memory, as the program's own objects call them (the linker's --wrap).
 *
 * A new block has no values and is filled with a pattern; a red zone follows it, so that an index beyond the last
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

/* Return how many bytes of red zone follow a heap block of this size: about a row of a square array of doubles. */
static size_t red_zone_size(size_t size) {
    size_t n = 64 + size / 16;
    return (n < 1 << 16 ? n : 1 << 16) & ~(size_t)7;
}

/* Mark a new heap block in the shadow cells: its bytes from `old_size` on without values (or zeroed, if `cleared`),
 * with red zones before and after it. A large block becomes an object at once. Returns the block. */
static void *register_block(void *block, size_t size, size_t old_size, bool cleared) {
    if (!block || now.off) return block;
    uintptr_t low = (uintptr_t)block, end = (low + size + 7) & ~(uintptr_t)7;
    if (cleared) set_cell_states(low + old_size, end, 0);
    else if (old_size < size) weft_check_clear((char *)block + old_size, size - old_size);
    set_cell_states(end, low + malloc_usable_size(block), REDZONE);
    set_cell_states(low - 8, low, REDZONE); /* the allocator's own word: blocks.c finds the beginning by it */
    blocks_note_new_block();
    if (size >= NAMED) /* a parameter may be a view of it */
        weft_check_data(0, block, size);
    return block;
}

/* Forget the objects in a heap block that is being freed, and clear its shadow cells. */
static void unregister_block(void *block) {
    if (!block || now.off) return;
    uintptr_t low = (uintptr_t)block, high = low + malloc_usable_size(block);
    for (struct object *object; (object = find_object_from(low)) && object->low < high;) object_drop(object);
    set_cell_states(low - 8, high, 0);
}

void *__wrap_malloc(size_t size) { return register_block(__real_malloc(size + red_zone_size(size)), size, 0, false); }

/* Replace calloc: the block has a red zone after it and counts as initialised. */
void *__wrap_calloc(size_t count, size_t size) {
    size_t all;
    if (__builtin_mul_overflow(count, size, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    return register_block(__real_calloc(1, all + red_zone_size(all)), all, 0, true);
}

/* Replace realloc: always move the content to a new block with a red zone of its own. */
void *__wrap_realloc(void *old, size_t size) {
    if (!old) return __wrap_malloc(size);
    if (now.off) return __real_realloc(old, size + red_zone_size(size));
    void *p = __wrap_malloc(size);
    if (!p) return NULL;
    size_t had = malloc_usable_size(old);
    __wrap_memcpy(p, old, had < size ? had : size);
    unregister_block(old);
    __real_free(old);
    return p;
}

/* Replace reallocarray, as __wrap_realloc does realloc. */
void *__wrap_reallocarray(void *old, size_t count, size_t size) {
    size_t all;
    if (__builtin_mul_overflow(count, size, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    return __wrap_realloc(old, all);
}

void __wrap_free(void *p) {
    unregister_block(p);
    __real_free(p);
}

/* Replace C++'s operator new. Without memory the program ends; no exception is thrown. */
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
    return register_block(__real_aligned_alloc(alignment, size), size, 0, false);
}

/* Replace posix_memalign: the block has a red zone after it. Returns libc's error number. */
int __wrap_posix_memalign(void **block, size_t alignment, size_t size) {
    int status = __real_posix_memalign(block, alignment, size + red_zone_size(size));
    if (status == 0) register_block(*block, size, 0, false);
    return status;
}

#define PLACE ((uintptr_t)__builtin_return_address(0))

/* Check the bytes that memcpy writes. Reading an uninitialised source is no error: the copy of such bytes counts as
 * uninitialised, too, and only its use is reported. */
static void check_copy(void *to, const void *from, size_t byte_count, uintptr_t pc) {
    if (now.off) return;
    access_range((uintptr_t)to, byte_count, true, pc);
    uintptr_t t = (uintptr_t)to, f = (uintptr_t)from;
    if (t % 8 == 0 && f % 8 == 0)
        for (; byte_count >= 8; t += 8, f += 8, byte_count -= 8)
            if (cell8(f)->written == UNINITIALISED || cell8(f)->written == WAS_PRIVATE)
                cell8(t)->written = cell8(f)->written;
}

static void check_fill(void *to, size_t byte_count, uintptr_t pc) {
    if (!now.off) access_range((uintptr_t)to, byte_count, true, pc);
}

/* clang from 15 on has names of its own for the copies that it makes itself. */
#define COPIES(prefix)                                                                                                 \
    void *prefix##memcpy(void *to, const void *from, size_t n) {                                                       \
        check_copy(to, from, n, PLACE);                                                                                \
        return __real_memcpy(to, from, n);                                                                             \
    }                                                                                                                  \
    void *prefix##memmove(void *to, const void *from, size_t n) {                                                      \
        check_fill(to, n, PLACE);                                                                                      \
        return __real_memmove(to, from, n);                                                                            \
    }                                                                                                                  \
    void *prefix##memset(void *to, int byte, size_t n) {                                                               \
        check_fill(to, n, PLACE);                                                                                      \
        return __real_memset(to, byte, n);                                                                             \
    }
static void check_output_elements(uintptr_t from, size_t byte_count, size_t element, uintptr_t pc) {
    for (uintptr_t high = from + byte_count; from + element <= high; from += element)
        access_range(from, element, false, pc);
}

/* Check data that fwrite or write puts out, since the library reads it without hooks. Elements of distributed arrays
 * are read one by one, as the runtime of DVM collects them. */
static void check_output(const void *from, size_t byte_count, uintptr_t pc) {
    const struct object *object = now.off || weft_construct.started ? NULL : find_object_at((uintptr_t)from);
    if (!object) return;
    if (object->distributed && (object->element == 4 || object->element == 8)) {
        weft_check_io_begin();
        check_output_elements((uintptr_t)from, byte_count, object->element, pc);
        weft_check_io_end();
    } else {
        check_structure_output((uintptr_t)from, byte_count, pc);
    }
}

size_t __wrap_fwrite(const void *from, size_t size, size_t n, FILE *to) {
    check_output(from, size * n, PLACE);
    return __real_fwrite(from, size, n, to);
}

ssize_t __wrap_write(int to, const void *from, size_t n) {
    check_output(from, n, PLACE);
    return __real_write(to, from, n);
}

/* Check a string that puts or fputs puts out, up to its terminating zero. */
static void check_output_text(const char *text, uintptr_t pc) {
    const struct object *object = now.off || weft_construct.started ? NULL : find_object_at((uintptr_t)text);
    if (!object) return;
    weft_check_io_begin();
    check_output_elements((uintptr_t)text, strnlen(text, object->high - (uintptr_t)text - 1) + 1, 1, pc);
    weft_check_io_end();
}

int __wrap_puts(const char *text) {
    check_output_text(text, PLACE);
    return __real_puts(text);
}

int __wrap_fputs(const char *text, FILE *to) {
    check_output_text(text, PLACE);
    return __real_fputs(text, to);
}

COPIES(__wrap_)
COPIES(__tsan_)
