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

static size_t count_blocks_up_to(const struct list *list, uintptr_t address) {
    return count_elements_up_to(list->blocks, list->count, sizeof *list->blocks, offsetof(struct block, low), address);
}

static struct list *find_part_list(uintptr_t address) { return &parts[(address >> PART) % PARTS]; }
static struct list *find_list(uintptr_t low, size_t size) { return size >> PART ? &large : find_part_list(low); }

#define LEAST 64

/* Reserve the table with one block list for each 64 KiB of address space, once. Return whether it is there. */
static bool reserve_block_lists(void) {
    if (parts) return true;
    void *reserved =
        mmap(NULL, PARTS * sizeof *parts, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved != MAP_FAILED) parts = reserved;
    return parts != NULL;
}

/* Make room for one more block in a list; return false without memory. */
static bool make_room_in_list(struct list *list) {
    if (list->count < list->room) return true;
    uint32_t new_room = list->room ? 2 * list->room : 8;
    struct block *grown = __libc_realloc(list->blocks, new_room * sizeof *grown);
    if (!grown) return false;
    list->blocks = grown;
    list->room = new_room;
    return true;
}

/* Record a new heap block (NULL: do nothing): forget earlier accesses of its memory, and remember which thread
 * allocated it. */
static void note_block(void *block, size_t size) {
    if (!block) return;
    uintptr_t low = (uintptr_t)block;
    if (now.next > 2) clear_shadow(low, low + malloc_usable_size(block));
    if (now.devices) forget_copy_states(low, low + malloc_usable_size(block));
    if (size < LEAST && !now.on && !(me && me->on_device)) return;
    if (!reserve_block_lists()) return;
    struct list *list = find_list(low, size);
    if (!make_room_in_list(list)) return;
    size_t index = count_blocks_up_to(list, low);
    memmove(list->blocks + index + 1, list->blocks + index, (list->count - index) * sizeof *list->blocks);
    list->blocks[index] =
        (struct block){low, size, now.on && me ? me->slot : -1, now.on ? now.current : 0, me && me->on_device};
    list->count++;
}

/* Remove the block that begins at `low` from a list; return whether it was there. */
static bool remove_block_from(struct list *list, uintptr_t low) {
    size_t end = count_blocks_up_to(list, low);
    if (!end || list->blocks[end - 1].low != low) return false;
    memmove(list->blocks + end - 1, list->blocks + end, (list->count - end) * sizeof *list->blocks);
    list->count--;
    return true;
}

static void forget_block(void *block) {
    if (parts && !remove_block_from(find_part_list((uintptr_t)block), (uintptr_t)block))
        remove_block_from(&large, (uintptr_t)block);
}

/* Return the block of a list that holds an address; NULL if none does. */
static const struct block *find_block_in(const struct list *list, uintptr_t address) {
    size_t end = count_blocks_up_to(list, address);
    return end && address - list->blocks[end - 1].low < list->blocks[end - 1].size ? &list->blocks[end - 1] : NULL;
}

/* Return the recorded heap block that contains an address; NULL if there is none. */
static const struct block *find_block(uintptr_t address) {
    if (!parts) return NULL;
    const struct block *found = find_block_in(find_part_list(address), address);
    if (!found) found = find_block_in(find_part_list(address - ((uintptr_t)1 << PART)), address);
    return found ? found : find_block_in(&large, address);
}

/* Find the recorded heap block that contains an address: return false if there is none, else fill in its start, its
 * size, the thread that allocated it (-1: outside of parallel regions) and the strand that did. */
bool find_heap_block(uintptr_t address, uintptr_t *low, size_t *size, int *thread, strand_t *since) {
    const struct block *found = find_block(address);
    if (!found) return false;
    *low = found->low;
    *size = found->size;
    *thread = found->thread;
    *since = found->since;
    return true;
}

/* Allocate memory that exists only on the device; NULL if there is none. */
void *allocate_device_memory(size_t align, size_t size) {
    bool was_on_device = me->on_device;
    me->on_device = true;
    void *memory = __libc_memalign(align < 16 ? 16 : align, size);
    note_block(memory, size);
    me->on_device = was_on_device;
    return memory;
}

bool is_device_block(uintptr_t address) {
    const struct block *found = find_block(address);
    return found && found->on_device;
}

/* Replace libc's malloc() and record the block. */
void *malloc(size_t size) {
    void *block = __libc_malloc(size);
    note_block(block, size);
    return block;
}

/* Replace libc's free() and forget the block. */
void free(void *block) {
    if (!block) return;
    forget_block(block);
    __libc_free(block);
}

/* Replace libc's calloc() and record the block. */
void *calloc(size_t count, size_t size) {
    void *block = __libc_calloc(count, size);
    note_block(block, count * size);
    return block;
}

/* Replace libc's realloc(): forget the old block and record the new one. */
void *realloc(void *old, size_t size) {
    if (old) forget_block(old);
    void *block = __libc_realloc(old, size);
    note_block(block ? block : old, size);
    return block;
}

/* Replace libc's memalign() and record the block. */
void *memalign(size_t align, size_t size) {
    void *block = __libc_memalign(align, size);
    note_block(block, size);
    return block;
}
void *aligned_alloc(size_t align, size_t n) { return memalign(align, n); }

/* Replace libc's posix_memalign(), by way of memalign(). */
int posix_memalign(void **result, size_t align, size_t size) {
    void *block = memalign(align, size);
    if (!block) return ENOMEM;
    *result = block;
    return 0;
}

/* Called by GCC's code for variables with the clause `allocate`. */
void *GOMP_alloc(size_t align, size_t size, uintptr_t allocator) {
    (void)allocator;
    return memalign(align < 16 ? 16 : align, size);
}
/* What an allocator of OpenMP's gave to an allocatable of Fortran is free's here, too: none is kept apart. */
void GOMP_add_alloc(void *p) { (void)p; }
int GOMP_is_alloc(void *p) { return (void)p, 0; }

/* Called by GCC's code to free a variable with the clause `allocate`. */
void GOMP_free(void *block, uintptr_t allocator) {
    (void)allocator;
    free(block);
}
