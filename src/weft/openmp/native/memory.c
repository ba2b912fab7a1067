/* Blocks of the heap. */
#include "openmp.h"

#include <errno.h>
#include <malloc.h>
#include <search.h>
#include <string.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

void *real_malloc(size_t n) { return __libc_malloc(n); }

/* Blocks by address in a table of their pages' starts would not find their insides: a sorted list of big ones, and of
 * those that a region's threads made, is searched. */
struct block {
    uintptr_t low;
    size_t size;
    int thread;
    strand_t since;
    bool on_device;
};

static struct block *blocks;
static size_t count, room;

static size_t above(uintptr_t a) { return up_to(blocks, count, sizeof *blocks, offsetof(struct block, low), a); }

#define LEAST 64
#define MOST 65536

static void block_made(void *p, size_t size) {
    if (!p) return;
    uintptr_t low = (uintptr_t)p;
    if (now.next > 2) shadow_clear(low, low + malloc_usable_size(p));
    if (now.devices) devices_forget(low, low + malloc_usable_size(p));
    if (size < LEAST && !now.on && !(me && me->on_device)) return;
    if (count == MOST) return;
    if (count == room) {
        size_t more = room ? 2 * room : 1024;
        struct block *grown = __libc_realloc(blocks, more * sizeof *blocks);
        if (!grown) return;
        blocks = grown;
        room = more;
    }
    size_t at = above(low);
    memmove(blocks + at + 1, blocks + at, (count - at) * sizeof *blocks);
    bool own = now.on && me && node(me->plain)->kind != ITERATION;
    blocks[at] = (struct block){low, size, own ? me->slot : -1, now.on ? now.current : 0, me && me->on_device};
    count++;
}

static void block_gone(void *p) {
    size_t at = above((uintptr_t)p);
    if (!at || blocks[at - 1].low != (uintptr_t)p) return;
    memmove(blocks + at - 1, blocks + at, (count - at) * sizeof *blocks);
    count--;
}

static const struct block *block_at(uintptr_t a) {
    size_t at = above(a);
    return at && a - blocks[at - 1].low < blocks[at - 1].size ? &blocks[at - 1] : NULL;
}

bool block_of(uintptr_t a, uintptr_t *low, size_t *size, int *thread, strand_t *since) {
    const struct block *b = block_at(a);
    if (!b) return false;
    *low = b->low;
    *size = b->size;
    *thread = b->thread;
    *since = b->since;
    return true;
}

/* Memory that only the device has. */
void *memory_of_device(size_t align, size_t n) {
    bool was = me->on_device;
    me->on_device = true;
    void *p = __libc_memalign(align < 16 ? 16 : align, n);
    block_made(p, n);
    me->on_device = was;
    return p;
}

bool block_of_device(uintptr_t a) {
    const struct block *b = block_at(a);
    return b && b->on_device;
}

void *malloc(size_t n) {
    void *p = __libc_malloc(n);
    block_made(p, n);
    return p;
}
void free(void *p) {
    if (!p) return;
    block_gone(p);
    __libc_free(p);
}
void *calloc(size_t n, size_t size) {
    void *p = __libc_calloc(n, size);
    block_made(p, n * size);
    return p;
}
void *realloc(void *p, size_t n) {
    if (p) block_gone(p);
    void *q = __libc_realloc(p, n);
    block_made(q ? q : p, n);
    return q;
}
void *memalign(size_t align, size_t n) {
    void *p = __libc_memalign(align, n);
    block_made(p, n);
    return p;
}
void *aligned_alloc(size_t align, size_t n) { return memalign(align, n); }
int posix_memalign(void **to, size_t align, size_t n) {
    void *p = memalign(align, n);
    if (!p) return ENOMEM;
    *to = p;
    return 0;
}

void *GOMP_alloc(size_t align, size_t n, uintptr_t allocator) {
    (void)allocator;
    return memalign(align < 16 ? 16 : align, n);
}
/* What an allocator of OpenMP's gave to an allocatable of Fortran is free's here, too: none is kept apart. */
void GOMP_add_alloc(void *p) { (void)p; }
int GOMP_is_alloc(void *p) { return (void)p, 0; }
void GOMP_free(void *p, uintptr_t allocator) {
    (void)allocator;
    free(p);
}
