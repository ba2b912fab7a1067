/* The shadow of the program's memory, and what each access is compared with. */
#include "shadow.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *reserved(void *at, size_t size) {
    void *p = mmap(at, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);
    if (p == MAP_FAILED || (at && p != at)) {
        told_no_memory();
        _exit(2);
    }
    madvise(p, size, MADV_DONTFORK);
    return p;
}

void shadow_reserve(uintptr_t at, size_t size) { reserved((void *)at, size); }

/* --- marks ------------------------------------------------------------------------------------------------------- */

#define FIRST_PLAIN 2u
#define FIRST_ATOMIC (ATOMIC + 2)
#define MOST_OLD 0x60000000u /* beyond so many, numbers begin anew */
#define PLACES ((size_t)1 << 31)
#define MARKS ((size_t)1 << 30)

static struct mark *plain_marks, *atomic_marks; /* from now.old and now.old_atomic on, which stand at their start */
mark_t *last_marks;
static uint32_t *callers; /* by place: of code of the language's library */

void shadow_turn(void) {
    now.mine = now.mark;
    now.room = PLAIN_END - now.mine;
    if (now.any_past) {
        memset(now.past, 0, sizeof now.past);
        now.any_past = false;
    }
}

static void marks_restart(void) {
    now.old = now.mark = now.row_mark = FIRST_PLAIN;
    now.old_atomic = now.atomic = FIRST_ATOMIC;
    shadow_turn();
    hooks_again();
    lines_forget();
}

void shadow_open(void) {
    reserved((void *)SHADOW, SHADOW_SIZE);
    plain_marks = reserved(NULL, MARKS * sizeof *plain_marks);
    atomic_marks = reserved(NULL, MARKS * sizeof *atomic_marks);
    last_marks = reserved(NULL, PLACES * sizeof *last_marks);
    callers = reserved(NULL, PLACES * sizeof *callers);
    marks_restart();
}

void shadow_restart(void) {
    madvise((void *)SHADOW, SHADOW_SIZE, MADV_DONTNEED);
    for (size_t place = 0; place < now.text; place++)
        if (last_marks[place]) last_marks[place] = 1;
    marks_restart();
}

void shadow_forget(void) {
    now.old = now.row_mark = now.mark;
    now.old_atomic = now.atomic;
    shadow_turn();
    hooks_again();
}

bool shadow_full(void) { return now.mark > MOST_OLD || now.atomic - ATOMIC > MOST_OLD; }

uint32_t shadow_caller(uint32_t place) { return callers[place]; }

size_t shadow_places(void) {
    size_t count = 0;
    for (size_t i = 0; i < now.text; i++) count += last_marks[i] != 0;
    return count;
}

INLINE bool over(mark_t m) { return m < (m & ATOMIC ? now.old_atomic : now.old); }

static inline struct mark *mark(mark_t m) {
    return m & ATOMIC ? &atomic_marks[(m - now.old_atomic) / 2] : &plain_marks[(m - now.old) / 2];
}

static inline strand_t strand_of(mark_t m) { return mark(m)->strand; }

mark_t mark_made(uint32_t place) {
    mark_t *last = &last_marks[place & ~ATOMIC], m = *last;
    bool earlier = now.first_turn && !(m & ATOMIC) && !mine(m); /* than the strand */
    if (!earlier && !over(m) && !((m ^ place) & ATOMIC) && strand_of(m) == now.current) return m;
    mark_t *next = place & ATOMIC ? &now.atomic : &now.mark;
    if (*next >= (place & ATOMIC ? SPECIAL : PLAIN_END)) { /* what is not marked is as if it were over */
        told_plain("left", "crowd", place & ~ATOMIC, 0);
        return 0;
    }
    m = *next;
    *next += 2;
    *mark(m) = (struct mark){now.current, place};
    if (is_library_place(place & ~ATOMIC)) callers[place & ~ATOMIC] = caller_of(place & ~ATOMIC);
    return *last = m | (now.in_row && !(m & ATOMIC));
}

INLINE mark_t mark_of(uint32_t place) {
    mark_t m = last_marks[place & ~ATOMIC];
    return mine(m) && !(place & ATOMIC) ? m : mark_made(place);
}

/* --- what is a conflict ------------------------------------------------------------------------------------------ */

/* Whether what only one thread can have is meant: its stack below the region's start, its thread-local variables, a block
 * that it allocated in this region for itself. */
static bool own(uintptr_t a, strand_t other) {
    if (a >= me->stack_low && a < me->frame) return same_thread(other, now.current);
    if (a >= me->tls_low && a < me->tls_high) return true;
    uintptr_t low;
    size_t size;
    int thread;
    uint32_t since;
    if (!same_thread(other, now.current)) return false;
    if (me->team && me->team->number_asked) return true;
    return block_of(a, &low, &size, &thread, &since) && thread == me->slot && me->team && since >= me->team->region;
}

/* Lanes of one simd loop: within safelen, what an earlier one wrote. */
static bool lanes_apart(strand_t a, strand_t b, bool read_before) {
    const struct node *na = node(trunk(a)), *nb = node(trunk(b));
    if (na->kind != LANE || nb->kind != LANE || na->loop != nb->loop) return false;
    int64_t most = (int64_t)nb->locks;
    return read_before || (most && nb->index - na->index >= most);
}

/* What is known to come before the running strand, is known of all its accesses. */
enum search { THOROUGH, BRIEF_OR_TRUE, BRIEF_OR_FALSE };

static bool came_before(mark_t m, enum search search) {
    static unsigned turn;
    strand_t s = strand_of(m);
    bool is = search == THOROUGH ? ordered(s, now.current) : ordered_nearby(s, now.current, search == BRIEF_OR_TRUE);
    if (!is) return false;
    now.past[turn++ % PAST] = m;
    now.any_past = true;
    return true;
}

static bool made_by(strand_t s, enum maker maker) {
    for (; s >= weft_first; s = node(s)->parent)
        if (node(s)->kind == TASK && node(s)->loop == (uint32_t)maker) return true;
    return false;
}

/* A copy between host and device beside a target region: the one has the host's side, the other the device's. */
static bool sides_apart(strand_t earlier) {
    return (me->on_device && made_by(earlier, BY_COPY)) ||
           (made_by(now.current, BY_COPY) && made_by(earlier, BY_TARGET));
}

enum pair { READ_OF_WRITE, WRITE_OF_WRITE, WRITE_OF_READ };

static bool conflicts(mark_t m, uintptr_t a, uint32_t place, enum pair pair) {
    if (over(m) || (m & place & ATOMIC) || (strand_of(m) == now.current && came_before(m, THOROUGH))) return false;
    strand_t s = strand_of(m);
    if (a >= me->stack_low && a < me->frame && same_thread(s, now.current)) return false;
    if (locks_keep_apart(s, now.current)) {
        if (pair == READ_OF_WRITE) locks_take_over(s);
        return false;
    }
    /* What was found already is only counted. */
    bool told = told_before(place, mark(m)->place, pair != READ_OF_WRITE, pair != WRITE_OF_READ);
    return !came_before(m, told ? BRIEF_OR_TRUE : THOROUGH) && !lanes_apart(s, now.current, pair == WRITE_OF_READ) &&
           !own(a, s) && !sides_apart(s);
}

static int64_t chunk_of_both(strand_t a, strand_t b) {
    const struct node *na = node(trunk(a)), *nb = node(trunk(b));
    if (na->kind != ITERATION || nb->kind != ITERATION || na->loop != nb->loop) return 0;
    return loops_chunk_of_both(na->loop, na->index, nb->index);
}

static void race(mark_t m, uintptr_t a, size_t size, bool write, bool other_write, uint32_t place) {
    told_race(&(struct access){.address = a,
                               .size = size,
                               .write = write,
                               .other_write = other_write,
                               .place = place,
                               .other_place = mark(m)->place,
                               .strand = now.current,
                               .other = strand_of(m),
                               .chunk = chunk_of_both(strand_of(m), now.current)});
}

/* Whether what stands there says more than the current access: the same strand, with fewer locks. */
static bool weaker(mark_t m, uint32_t place) {
    if (over(m) || trunk(strand_of(m)) != trunk(now.current)) return false;
    const struct node *n = node(strand_of(m)), *current = node(now.current);
    uint64_t held = n->kind == LOCKED ? n->locks : 0, mine = current->kind == LOCKED ? current->locks : 0;
    return ((held & ~mine) == 0 && held != mine) || (held == mine && place & ATOMIC && !(m & ATOMIC));
}

/* One of the two words of reads: who reads now takes the place of who comes before it. */
static bool reads(mark_t *m, uint32_t place) {
    if (!over(*m) && !came_before(*m, BRIEF_OR_FALSE)) return false;
    if (!weaker(*m, place)) *m = mark_of(place);
    return true;
}

static bool has_read(mark_t m, uint32_t place) {
    return !over(m) && strand_of(m) == now.current && !((m ^ place) & ATOMIC);
}

/* An access of a granule with its words: the last write, two reads. */
void judge(mark_t *w, mark_t *r, mark_t *q, uintptr_t a, size_t size, bool write, uint32_t place) {
    line_changes(a);
    if (!mine(*w) && conflicts(*w, a, place, write ? WRITE_OF_WRITE : READ_OF_WRITE))
        race(*w, a, size, write, true, place);
    if (write) {
        if (!mine(*r) && conflicts(*r, a, place, WRITE_OF_READ)) race(*r, a, size, true, false, place);
        else if (!mine(*q) && conflicts(*q, a, place, WRITE_OF_READ)) race(*q, a, size, true, false, place);
        if (!weaker(*w, place)) *w = mark_of(place);
    } else if (!has_read(*r, place) && !has_read(*q, place) && !reads(r, place)) {
        reads(q, place);
    }
}

static void split8(uintptr_t a) {
    for (int p = 0; p < 3; p++) {
        mark_t m = *plane8(a, p), *finer = plane4(a & ~(uintptr_t)7, p);
        if (m || finer[0] || finer[1]) finer[0] = finer[1] = m;
    }
    *plane8(a, 0) = SPLIT;
    lines_forget();
}

static void split4(uintptr_t a) {
    for (int p = 0; p < 3; p++) {
        mark_t m = *plane4(a, p), *finer = plane1(a & ~(uintptr_t)3, p);
        if (m || finer[0] || finer[1] || finer[2] || finer[3]) finer[0] = finer[1] = finer[2] = finer[3] = m;
    }
    *plane4(a, 0) = SPLIT;
    lines_forget();
}

static void access4(uintptr_t a, size_t size, bool write, uint32_t place) {
    mark_t *w = plane4(a, 0);
    if (*w != SPLIT && size < 4) split4(a);
    if (*w != SPLIT) {
        judge(w, plane4(a, 1), plane4(a, 2), a, 4, write, place);
        return;
    }
    for (size_t i = 0; i < size; i++)
        judge(plane1(a + i, 0), plane1(a + i, 1), plane1(a + i, 2), a + i, 1, write, place);
}

static void access8(uintptr_t a, size_t size, bool write, uint32_t place) {
    mark_t *w = plane8(a, 0);
    if (*w == IGNORED) return;
    if (*w != SPLIT && size < 8) split8(a);
    if (*w != SPLIT) {
        judge(w, plane8(a, 1), plane8(a, 2), a, 8, write, place);
        return;
    }
    while (size) {
        size_t part = 4 - a % 4 < size ? 4 - a % 4 : size;
        access4(a, part, write, place);
        a += part;
        size -= part;
    }
}

void shadow_access(uintptr_t a, size_t size, bool write, uint32_t place) {
    now.touched = true;
    comes_down_to(a);
    while (size) {
        size_t part = 8 - a % 8 < size ? 8 - a % 8 : size;
        access8(a, part, write, place);
        a += part;
        size -= part;
    }
}

void shadow_range(uintptr_t a, size_t size, bool write, uint32_t place) {
    if (now.devices && size) devices_access(a, size, write, place);
    if (now.on) shadow_access(a, size, write, place);
}

/* What is nothing already stays untouched: it takes no memory. */
static void nothing_in(mark_t *first, size_t bytes) {
    for (size_t i = 0; i < bytes / sizeof *first; i++)
        if (first[i]) first[i] = 0;
}

#define PAGE 8192 /* of memory that has a page of the coarsest plane */
void shadow_clear(uintptr_t low, uintptr_t high) {
    lines_forget();
    low &= ~(uintptr_t)7;
    high = (high + 7) & ~(uintptr_t)7;
    uintptr_t inner = (low + PAGE - 1) & ~(uintptr_t)(PAGE - 1), end = high & ~(uintptr_t)(PAGE - 1);
    if (high - low < 64 * PAGE) {
        for (int p = 0; p < 3; p++) nothing_in(plane8(low, p), (high - low) / 2);
        return;
    }
    for (int p = 0; p < 3; p++) {
        madvise(plane8(inner, p), (end - inner) / 2, MADV_DONTNEED);
        madvise(plane4(inner, p), end - inner, MADV_DONTNEED);
        madvise(plane1(inner, p), 4 * (end - inner), MADV_DONTNEED);
        nothing_in(plane8(low, p), (inner - low) / 2);
        nothing_in(plane8(end, p), (high - end) / 2);
    }
}

void shadow_ignore(uintptr_t low, uintptr_t high) {
    for (uintptr_t a = low & ~(uintptr_t)7; a < high; a += 8) *plane8(a, 0) = IGNORED;
    lines_forget();
}
