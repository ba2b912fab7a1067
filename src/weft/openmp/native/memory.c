/* Blocks of the heap. */
#include "openmp.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/mman.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

void *real_malloc(size_t n) { return __libc_malloc(n); }

/* Blocks are known by their parts of memory of 64 KiB, each with a sorted list of those that begin in it: a small one that
 * holds an address begins in the address' part or in the one before. Large ones are in a list of their own. */
struct block {
    uintptr_t low;
    size_t size;
    int thread;
    strand_t since;
    bool on_device;
};

struct list {
    struct block *blocks;
    uint32_t count, room;
};

#define PART 16
#define PARTS ((size_t)1 << 25) /* addresses are folded into 41 bits, as in the shadow */
static struct list *parts, large;

static size_t above(const struct list *l, uintptr_t a) {
    return up_to(l->blocks, l->count, sizeof *l->blocks, offsetof(struct block, low), a);
}

static struct list *part_of(uintptr_t a) { return &parts[(a >> PART) % PARTS]; }
static struct list *list_of(uintptr_t low, size_t size) { return size >> PART ? &large : part_of(low); }

#define LEAST 64

static bool has_parts(void) {
    if (parts) return true;
    void *reserved =
        mmap(NULL, PARTS * sizeof *parts, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved != MAP_FAILED) parts = reserved;
    return parts != NULL;
}

static bool has_room(struct list *l) {
    if (l->count < l->room) return true;
    uint32_t more = l->room ? 2 * l->room : 8;
    struct block *grown = __libc_realloc(l->blocks, more * sizeof *grown);
    if (!grown) return false;
    l->blocks = grown;
    l->room = more;
    return true;
}

static void block_made(void *p, size_t size) {
    if (!p) return;
    uintptr_t low = (uintptr_t)p;
    if (now.next > 2) clear_shadow(low, low + malloc_usable_size(p));
    if (now.devices) devices_forget(low, low + malloc_usable_size(p));
    if (size < LEAST && !now.on && !(me && me->on_device)) return;
    if (!has_parts()) return;
    struct list *l = list_of(low, size);
    if (!has_room(l)) return;
    size_t at = above(l, low);
    memmove(l->blocks + at + 1, l->blocks + at, (l->count - at) * sizeof *l->blocks);
    l->blocks[at] =
        (struct block){low, size, now.on && me ? me->slot : -1, now.on ? now.current : 0, me && me->on_device};
    l->count++;
}

static bool gone_from(struct list *l, uintptr_t low) {
    size_t at = above(l, low);
    if (!at || l->blocks[at - 1].low != low) return false;
    memmove(l->blocks + at - 1, l->blocks + at, (l->count - at) * sizeof *l->blocks);
    l->count--;
    return true;
}

static void block_gone(void *p) {
    if (parts && !gone_from(part_of((uintptr_t)p), (uintptr_t)p)) gone_from(&large, (uintptr_t)p);
}

static const struct block *block_in(const struct list *l, uintptr_t a) {
    size_t at = above(l, a);
    return at && a - l->blocks[at - 1].low < l->blocks[at - 1].size ? &l->blocks[at - 1] : NULL;
}

static const struct block *block_at(uintptr_t a) {
    if (!parts) return NULL;
    const struct block *b = block_in(part_of(a), a);
    if (!b) b = block_in(part_of(a - ((uintptr_t)1 << PART)), a);
    return b ? b : block_in(&large, a);
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
