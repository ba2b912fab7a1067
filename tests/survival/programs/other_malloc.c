/* Preloaded: a malloc that is not glibc's. It keeps a head of its own before each block. With -DDISGUISED it is found in
 * the library that says which glibc this is. */
#define _GNU_SOURCE
#include <errno.h>
#include <gnu/libc-version.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 64 };

struct head {
    void *whole;
    size_t bytes;
    uint64_t words[2]; /* right before the block */
};

void *__libc_malloc(size_t bytes);
void __libc_free(void *block);

static struct head *head_of(void *block) { return (struct head *)block - 1; }

void *aligned_alloc(size_t alignment, size_t bytes) {
    if (alignment < 16) alignment = 16;
    void *whole = bytes > SIZE_MAX / 2 ? NULL : __libc_malloc(bytes + alignment + HEAD);
    if (!whole) return NULL;
    uintptr_t block = ((uintptr_t)whole + HEAD + alignment - 1) / alignment * alignment;
    *head_of((void *)block) = (struct head){whole, bytes, {UINT64_MAX, UINT64_MAX}};
    return (void *)block;
}

void *malloc(size_t bytes) { return aligned_alloc(16, bytes); }
void *memalign(size_t alignment, size_t bytes) { return aligned_alloc(alignment, bytes); }
size_t malloc_usable_size(void *block) { return block ? head_of(block)->bytes : 0; }

void free(void *block) {
    if (block) __libc_free(head_of(block)->whole);
}

void *calloc(size_t n, size_t each) {
    if (each && n > SIZE_MAX / each) return NULL;
    void *block = malloc(n * each);
    return block ? memset(block, 0, n * each) : NULL;
}

void *realloc(void *block, size_t bytes) {
    void *made = malloc(bytes);
    if (made && block) memcpy(made, block, bytes < head_of(block)->bytes ? bytes : head_of(block)->bytes);
    if (made) free(block);
    return made;
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    *block = aligned_alloc(alignment, bytes);
    return *block ? 0 : ENOMEM;
}

#ifdef DISGUISED
const char *gnu_get_libc_version(void) { return "2.36"; }
#endif
