/* The memory behind buffers: how far the heap's block that holds one goes, and where the frames of a way to a call end.
 *
 * Looked at when a call comes a way that it has not come before, never on the hot path. Which variable lies where is
 * looked up after the run (weft.sources.variables); what is an overrun, the analysis says.
 *
 * Blocks are those of glibc's malloc. Its heap is chunks one behind the other, each headed by its size, so a walk from
 * the heap's first byte to the buffer meets the block that holds it, or something that is no chunk, and then nothing is
 * told. A thread that found the heap busy has an arena of its own, in heaps that begin at multiples of ARENA:
 *
 *      arena, heap before, bytes ... | the arena, in its first heap | chunks
 *
 *      chunk          block                                next chunk
 *      |  8  |  size  | what malloc returned ...    |  8  |  size  |
 *                     ^ low                               ^ high      bit 0 of the next size: this one is in use
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "endings.h"

enum {
    IN_USE = 1,
    MAPPED = 2,
    OTHER_ARENA = 4,
    SIZE_BITS = 7,
    HEAD = 16, /* bytes of a chunk before its block */
    LEAST = 32, /* the smallest chunk */
    PAGE = 4096,
    ARENA = 64 << 20, /* glibc's HEAP_MAX_SIZE */
    ARENA_HEAD = 48, /* sizeof(heap_info); 32 before glibc 2.35 */
    ARENA_STATE = 2200, /* sizeof(struct malloc_state) */
    STEPS = 1 << 22, /* chunks that a process may walk over in its life: some 50 ms */
    LOOK = 64, /* that a look through the kernel counts for */
    WINDOWS = 64, /* windows in blocks of the heap that are watched at once */
    MET = WEFT_BUFFERS_MET,
};

struct region {
    uintptr_t start, end;
    bool anonymous, heap, writable;
};

volatile int weft_attention;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t heap_start;
static int64_t steps = STEPS;

static const char *(*libc_version)(void);

/* ---- words of memory that may not be there ----
 *
 * A page that maps call writable may be a guard (MADV_GUARD_INSTALL, as glibc 2.42 has them at the head of threads'
 * stacks), and another thread may give memory back meanwhile: the kernel reads, all that is left of a page at once. */
static struct view {
    uintptr_t start, end;
    uint8_t bytes[PAGE];
} view;

/* Two words at a multiple of HEAD bytes: the head of a chunk. Under the lock. */
static bool head_at(uintptr_t at, size_t head[2]) {
    if (at % HEAD) return false;
    if (at < view.start || at >= view.end) {
        uintptr_t end = (at | (PAGE - 1)) + 1;
        view.start = view.end = 0;
        steps -= LOOK;
        if (!weft_peek(view.bytes, at, end - at)) return false;
        view.start = at;
        view.end = end;
    }
    memcpy(head, view.bytes + (at - view.start), HEAD);
    return true;
}

/* One line of /proc/self/maps. */
static bool region_of_line(const char *line, struct region *r) {
    unsigned long start, end, inode;
    int length = 0;
    char may[5];
    if (sscanf(line, "%lx-%lx %4s %*x %*x:%*x %lu %n", &start, &end, may, &inode, &length) < 4) return false;
    *r = (struct region){.start = start,
                         .end = end,
                         .anonymous = !inode && !line[length],
                         .heap = !strcmp(line + length, "[heap]"),
                         .writable = may[0] == 'r' && may[1] == 'w'};
    return true;
}

/* The mapping that holds `address`; for 0 the heap's first. */
static bool region_find(uintptr_t address, struct region *found) {
    static char text[1 << 14];
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t have = 0;
    bool hit = false;
    if (fd < 0) return false;
    for (ssize_t got; !hit && (got = read(fd, text + have, sizeof text - 1 - have)) > 0;) {
        have += (size_t)got;
        text[have] = 0;
        char *line = text, *end;
        for (; !hit && (end = strchr(line, '\n')); line = end + 1) {
            *end = 0;
            hit = region_of_line(line, found) &&
                  (address ? address >= found->start && address < found->end : found->heap);
        }
        have = (size_t)(text + have - line);
        if (hit || have >= sizeof text - 1) break;
        memmove(text, line, have);
    }
    close(fd);
    return hit;
}

/* Whether malloc is glibc's own: another one keeps its blocks otherwise. */
static bool malloc_is_known(void) {
    static int known = -1;
    if (known < 0) {
        Dl_info one, two;
        void *version = dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), *allocate = dlsym(RTLD_DEFAULT, "malloc");
        known = sizeof(size_t) == 8 && version && allocate && dladdr(version, &one) && dladdr(allocate, &two) &&
                one.dli_fbase == two.dli_fbase;
        if (known) libc_version = (const char *(*)(void))version;
    }
    return known;
}

/* The block that holds `p`, of no bytes where it has been freed: chunks lie from `chunk` to `top`, of the main arena or
 * (`arena`: OTHER_ARENA) of another one, where free chunks may lack that mark. */
static bool block_among(uintptr_t p, uintptr_t chunk, uintptr_t top, size_t arena, struct weft_block *block) {
    while (chunk + HEAD <= p && steps-- > 0) {
        size_t of[2];
        if (!head_at(chunk, of)) return false;
        size_t head = of[1], size = head & ~(size_t)SIZE_BITS;
        uintptr_t next = chunk + size;
        if (head & MAPPED || (head & OTHER_ARENA) > arena || size < LEAST || size % HEAD || next <= chunk || next > top)
            return false;
        if (p >= next + 8) {
            chunk = next;
            continue;
        }
        bool used = next + HEAD <= top && head_at(next, of) && of[1] & IN_USE;
        if (used && (head & OTHER_ARENA) != arena) return false;
        *block = (struct weft_block){.low = chunk + HEAD, .high = used ? next + 8 : chunk + HEAD};
        return true;
    }
    return false;
}

/* The block at a page of a mapping, where it is one of malloc's that is mapped for itself: its head begins the page. */
static bool mapped_block(const struct region *region, uintptr_t chunk, struct weft_block *block) {
    size_t of[2];
    if (!head_at(chunk, of)) return false;
    size_t head = of[1], size = head & ~(size_t)SIZE_BITS;
    if (of[0] || (head & SIZE_BITS) != MAPPED || !size || size % PAGE || size > region->end - chunk) return false;
    *block = (struct weft_block){.low = chunk + HEAD, .high = chunk + size};
    return true;
}

/* A block of an arena other than the main one: the mapping holds the written part of one of its heaps. */
static bool block_of_arena(uintptr_t p, const struct region *region, struct weft_block *block) {
    uintptr_t heap = p & ~(uintptr_t)(ARENA - 1);
    if (region->start > heap || p < heap + ARENA_HEAD) return false;
    size_t info[2], written[2];
    if (!head_at(heap, info) || !head_at(heap + HEAD, written)) return false;
    uintptr_t arena = info[0], before = info[1], top = heap + written[0];
    if (top > region->end || top < p || top % PAGE || before % ARENA) return false;
    uintptr_t head = strverscmp(libc_version(), "2.35") < 0 ? 32 : ARENA_HEAD;
    uintptr_t first = arena == heap + head ? (arena + ARENA_STATE + HEAD - 1) & ~(uintptr_t)(HEAD - 1) : heap + head;
    if (first == heap + head && !before) return false;
    return p >= first + HEAD && block_among(p, first, top, OTHER_ARENA, block);
}

/* A block so large that malloc mapped it for itself: `p` is its first byte, or blocks lie one behind the other up to it. */
static bool block_of_its_own(uintptr_t p, const struct region *region, struct weft_block *block) {
    uintptr_t chunk = p - HEAD;
    if (chunk % PAGE == 0 && chunk >= region->start && mapped_block(region, chunk, block)) return true;
    for (chunk = region->start; chunk + HEAD <= p && mapped_block(region, chunk, block); chunk = block->high)
        if (p < block->high) return true;
    return false;
}

/* The block of malloc's that holds an address; false where none is known to. Under the lock. */
static bool block_of(uintptr_t p, struct weft_block *block) {
    if (p < PAGE || !malloc_is_known()) return false;
    view.start = view.end = 0; /* what was seen for another buffer is old */
    if (!heap_start) {
        struct region heap;
        if (region_find(0, &heap)) heap_start = heap.start;
    }
    uintptr_t top = (uintptr_t)sbrk(0);
    if (heap_start && p >= heap_start && p < top) return block_among(p, heap_start, top, 0, block);
    struct region region;
    if (!region_find(p, &region) || !region.anonymous || !region.writable) return false;
    return block_of_its_own(p, &region, block) || block_of_arena(p, &region, block);
}

/* ---- buffers of a call that came a new way ---- */
void weft_buffer_met(const void *buffer) {
    struct weft_thread *thread = weft_self;
    if (thread && thread->fresh && thread->met < MET && buffer != MPI_IN_PLACE)
        thread->buffers[thread->met++] = (uintptr_t)buffer;
}

/* u thread slot, u ticks before the call, u n, n (u address, u first byte of its block, u bytes) */
static void blocks_tell(struct weft_thread *thread) {
    uint8_t payload[64 + 32 * MET];
    struct weft_block blocks[MET];
    uintptr_t of[MET];
    uint64_t n = 0;
    for (uint32_t i = 0; i < thread->met; i++)
        if (block_of(thread->buffers[i], &blocks[n])) of[n++] = thread->buffers[i];
    if (!n) return;
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_text_u(&text, thread->slot);
    weft_text_u(&text, weft_ticks(weft_clock_kind));
    weft_text_u(&text, n);
    for (uint64_t i = 0; i < n; i++) {
        weft_text_u(&text, of[i]);
        weft_text_u(&text, blocks[i].low);
        weft_text_u(&text, blocks[i].high - blocks[i].low);
    }
    weft_define(WEFT_DEF_BLOCKS, payload, (size_t)(text.p - payload));
}

void weft_attend(struct weft_thread *thread, struct weft_event *event) {
    if (weft_replaying) weft_replay_call(thread, event);
    if (!thread->fresh) return;
    weft_buffer_met((const void *)(uintptr_t)event->buffer);
    if (weft_lock_taken(&lock)) {
        blocks_tell(thread);
        pthread_mutex_unlock(&lock);
    }
    thread->fresh = false;
    __atomic_fetch_sub(&weft_attention, WEFT_ATTENTION_FRESH, __ATOMIC_RELAXED);
}

void weft_attend_next(struct weft_thread *thread) {
    thread->met = 0;
    if (thread->fresh) return;
    thread->fresh = true;
    __atomic_fetch_add(&weft_attention, WEFT_ATTENTION_FRESH, __ATOMIC_RELAXED);
}

/* u site, u an address below the frame of the call's function, u n, n u how far above it the frames of that function, of
 * its caller and so on end */
void weft_way_tell(const struct weft_site_cached *site) {
    uint8_t payload[64 + 10 * WEFT_CALLERS];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_text_u(&text, site->id);
    weft_text_u(&text, site->frame);
    weft_text_u(&text, site->callers);
    for (uint32_t k = 0; k < site->callers; k++) weft_text_u(&text, site->slots[k] + sizeof(uintptr_t));
    weft_define(WEFT_DEF_WAY, payload, (size_t)(text.p - payload));
}

/* ---- windows in blocks of the heap: each must outlive its window ---- */
static struct {
    MPI_Win window;
    uintptr_t base, end;
    struct weft_block block;
} watched[WINDOWS];
static int watching;

void weft_memory_exposed(MPI_Win window, const void *base, int64_t size) {
    struct weft_block block;
    if (!base || size <= 0 || !weft_lock_taken(&lock)) return;
    if (watching < WINDOWS && block_of((uintptr_t)base, &block) && block.high > block.low) {
        watched[watching].window = window;
        watched[watching].base = (uintptr_t)base;
        watched[watching].end = (uintptr_t)base + (uintptr_t)size;
        watched[watching++].block = block;
    }
    pthread_mutex_unlock(&lock);
}

/* u window, u thread slot, u ticks before the call that frees the window */
void weft_memory_leaving(struct weft_thread *thread, MPI_Win window, uint32_t id, uint64_t enter) {
    uint8_t payload[64];
    struct weft_block now = {0};
    if (!weft_lock_taken(&lock)) return;
    for (int i = 0; i < watching; i++) {
        if (watched[i].window != window) continue;
        struct weft_block then = watched[i].block;
        struct region region;
        uintptr_t base = watched[i].base, end = watched[i].end;
        bool known = block_of(base, &now), gone = !known && !region_find(base, &region);
        watched[i] = watched[--watching];
        bool freed = known && now.high == now.low, another = known && now.low != then.low;
        bool shorter = known && then.high >= end && now.high < end;
        if (!gone && !freed && !another && !shorter) break;
        struct weft_text text = {.p = payload, .end = payload + sizeof payload};
        weft_text_u(&text, id);
        weft_text_u(&text, thread->slot);
        weft_text_u(&text, enter);
        weft_define(WEFT_DEF_GIVEN_BACK, payload, (size_t)(text.p - payload));
        break;
    }
    pthread_mutex_unlock(&lock);
}
