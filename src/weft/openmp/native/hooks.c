/* What the compiler calls at each access of memory.
 *
 * Most accesses change nothing: the running strand was there before, or is one more reader of many. Where that holds for
 * all of a line, 128 bytes, the line is noted with the strand's turn, and the next accesses in it are done with that look.
 *
 *     +-----------+-----------------------------+----------------------------------+
 *     | turn (17) | line, of the address (40)   | where in it (7)                  |   noted, at line % LINES
 *     +-----------+-----------------------------+----------------------------------+
 *
 *     turn     where      what is noted
 *     strand   0          no access of this sort by the running strand changes anything in the line
 *     fresh    granule    from there on nobody was there in this phase: who reads there writes its mark, and goes on
 *
 * Examples: a strand that adds to c[0] ... c[15] a second time finds at c[0] that all 16 have its marks; c[1] ... c[15] are
 * compared with the note alone. Who reads a[0] first in a phase finds a[0] ... a[15] fresh; a[1], by whomever, is then read
 * without a look at its words.
 */
#include "shadow.h"

#include <string.h>

/* What accesses are compared with, as it holds until the next hooks_again(). */
struct looks {
    mark_t old, mine, room, row, row_room; /* marks: below `old` over; the strand's; of the row that it is of */
    uintptr_t stack, stack_size, marks;
    uint64_t turn, fresh; /* 0: nothing is noted */
};

/* `fast` is `all`, or has nothing over, mine or of a row where accesses are looked at one by one. */
static struct looks all, fast;

#define LINE 128
#define LINES 512
#define TURN ((uint64_t)1 << 47)
static uint64_t noted[4][LINES]; /* for reads and writes of 8 bytes, and of 4 */
static uint64_t turn, fresh; /* of one row of numbers */
static struct thread *fresh_for;

static void turns_forget(bool fresh_too) {
    turn += TURN;
    if (!turn) {
        memset(noted, 0, sizeof noted);
        turn = TURN;
        fresh_too = true;
    }
    if (fresh_too) {
        fresh = turn;
        turn += TURN;
    }
    fast.turn = now.apart ? 0 : turn;
    fast.fresh = now.apart ? 0 : fresh;
}

void lines_forget(void) { turns_forget(true); }

/* Another iteration of the row runs, in the same thread. */
static bool goes_on_in_row(void) {
    return fast.turn && !now.apart && now.in_row && all.row_room && all.row == now.row_mark && all.old == now.old &&
           all.stack == me->stack_low;
}

void hooks_again(void) {
    bool going_on = goes_on_in_row();
    all.mine = fast.mine = now.mine;
    all.room = fast.room = now.room;
    if (!going_on) {
        all.old = now.old;
        all.row = now.row_mark;
        all.row_room = now.in_row ? PLAIN_END - now.row_mark : 0;
        if (me) {
            all.stack = me->stack_low;
            all.stack_size = me->stack_high - me->stack_low;
        }
        all.marks = (uintptr_t)last_marks - now.start * sizeof *last_marks;
        fast = all;
        if (now.apart) fast.old = fast.room = fast.row_room = 0;
    }
    turns_forget(!going_on && fresh_for != me);
    fresh_for = me; /* what is fresh for one thread may be another one's own stack */
}

#define NOTED(a, size, write) noted[2 * ((size) == 4) + (write)][(a) / LINE % LINES]

/* A granule changes otherwise than by a read where the line is fresh. What is noted of the strand alone stays. */
INLINE void changes(uintptr_t a, size_t size) {
    uint64_t *n = &NOTED(a, size, false), apart = *n ^ a;
    if (apart % TURN < LINE && (apart ^ turn) >= LINE) *n = 0;
}

void line_changes(uintptr_t a) { changes(a, 8), changes(a, 4); }

/* --- what is most often there ------------------------------------------------------------------------------------ */

enum look { NOTHING_NEW, TAKE_IT, TAKE_SECOND, TO_JUDGE };

INLINE bool is_mine(const struct looks *l, mark_t m) { return m - l->mine < l->room; }
INLINE bool is_of_row(const struct looks *l, mark_t m) { return m & ROW && m - l->row < l->row_room; }
INLINE bool is_past(const struct looks *l, mark_t m) {
    return m < l->old ||
           (now.any_past && l->old && (m == now.past[0] || m == now.past[1] || m == now.past[2] || m == now.past[3]));
}

/* Most reads: the strand did the same before, or nobody was there in this phase but readers: itself, one more, or two
 * iterations of the loop that it is of. */
INLINE enum look read_looks(const struct looks *l, const mark_t *last, const mark_t *first, const mark_t *second) {
    mark_t r = *first;
    if (is_mine(l, r)) return NOTHING_NEW;
    mark_t w = *last;
    if (w >= l->old && !is_mine(l, w) && !is_past(l, w)) return TO_JUDGE;
    if (is_past(l, r)) return TAKE_IT;
    mark_t q = *second;
    if (is_mine(l, q)) return NOTHING_NEW;
    if (!is_of_row(l, r)) return TO_JUDGE;
    return is_of_row(l, q) ? NOTHING_NEW : q < l->old ? TAKE_SECOND : TO_JUDGE;
}

/* Most writes: nobody else was there in this phase. */
INLINE enum look write_looks(const struct looks *l, const mark_t *last, const mark_t *first, const mark_t *second) {
    mark_t r = *first;
    if (r >= l->old) {
        mark_t q = *second;
        if ((!is_mine(l, r) && !is_past(l, r)) || (q >= l->old && !is_mine(l, q))) return TO_JUDGE;
    }
    mark_t w = *last;
    return is_mine(l, w) ? NOTHING_NEW : is_past(l, w) ? TAKE_IT : TO_JUDGE;
}

/* --- all that may be there --------------------------------------------------------------------------------------- */

static __attribute__((noinline)) void first_here(mark_t *word, uint32_t place) {
    now.touched = true;
    *word = make_mark(place);
}

#define ON_STACK(l, a) ((a) - (l)->stack < (l)->stack_size)

/* Whether nothing is to be judged; the words have what comes of it. */
INLINE bool known_in(mark_t *w, mark_t *r, mark_t *q, uintptr_t a, bool write, uint32_t place) {
    enum look look = write ? write_looks(&all, w, r, q) : read_looks(&all, w, r, q);
    if (look == NOTHING_NEW) return true;
    if (look == TO_JUDGE || ON_STACK(&all, a)) return false;
    line_changes(a);
    first_here(look == TAKE_SECOND ? q : write ? w : r, place);
    return true;
}

#define KNOWN(plane) known_in(plane(a, 0), plane(a, 1), plane(a, 2), a, write, place)
static __attribute__((noinline)) bool known(uintptr_t a, size_t size, bool write, uint32_t place) {
    if (size == 8) return a % 8 == 0 && KNOWN(plane8);
    if (size == 4) return a % 4 == 0 && *plane8(a, 0) == SPLIT && KNOWN(plane4);
    return size == 1 && *plane8(a, 0) == SPLIT && *plane4(a, 0) == SPLIT && KNOWN(plane1);
}

static __attribute__((noinline)) void looked_at(uintptr_t a, size_t size, bool write, uint32_t flag, uint32_t place) {
    now.touched = true;
    comes_down_to(a);
    if (me->held || me->released) locks_watch(a, write);
    if (a - me->private_low < me->private_high - me->private_low) privates_access(a, size, write, place);
    place |= flag;
    mark_t *w = plane8(a, 0);
    if (size == 8 && a % 8 == 0 && *w < SPECIAL) check_granule(w, plane8(a, 1), plane8(a, 2), a, 8, write, place);
    else if (size == 4 && a % 4 == 0 && *w == SPLIT && *plane4(a, 0) < SPECIAL)
        check_granule(plane4(a, 0), plane4(a, 1), plane4(a, 2), a, 4, write, place);
    else check_access(a, size, write, place);
}

/* Whether nothing else is to be looked at. */
static __attribute__((noinline)) bool with_devices(uintptr_t a, size_t size, bool write, uint32_t flag,
                                                   uint32_t place) {
    devices_access(a, size, write, place);
    return !now.on || (!now.locks && !flag && known(a, size, write, place));
}

void hook(uintptr_t a, size_t size, bool write, uint32_t flag, uintptr_t from) {
    if (!now.apart) {
        if (!flag && known(a, size, write, place_of(from))) return;
    } else if (!now.on && !now.devices) {
        return;
    } else if (now.devices && with_devices(a, size, write, flag, place_of(from))) {
        return;
    }
    looked_at(a, size, write, flag, place_of(from));
}

/* --- lines ------------------------------------------------------------------------------------------------------- */

/* Four words at once: all bits of those that a comparison holds of. */
typedef uint32_t four __attribute__((vector_size(16)));
INLINE four in(four m, mark_t from, mark_t room) { return (four)(m - from < room); }
INLINE bool all_of(four m) {
    typedef uint64_t two __attribute__((vector_size(16)));
    return (((two)m)[0] & ((two)m)[1]) == UINT64_MAX;
}

INLINE four mine_in(four m) { return in(m, fast.mine, fast.room); }
INLINE four row_in(four m) { return (four)((m & ROW) != 0) & in(m, fast.row, fast.row_room); }
INLINE four over_in(four m) { return (four)(m < fast.old); }

/* Where read_looks() and write_looks() say that nothing is new, and will as long as only the running strand is there. */
INLINE four reads_known(four w, four r, four q) {
    return mine_in(r) | ((over_in(w) | mine_in(w)) & row_in(r) & (mine_in(q) | row_in(q)));
}
INLINE four writes_known(four w, four r, four q) {
    return mine_in(w) & (over_in(r) | mine_in(r)) & (over_in(q) | mine_in(q));
}

#define WORDS(p) (four *)(size == 8 ? plane8(a, p) : plane4(a, p))
INLINE four finer_in(uintptr_t a, size_t size) {
    const four *coarse = (four *)plane8(a, 0);
    four fine = ~(four){0};
    for (size_t i = 0; size == 4 && i < LINE / 8 / 4; i++) fine &= (four)(coarse[i] == SPLIT);
    return fine;
}

/* Words of the next line: so many places in memory are read in turn that the processor finds not each row of them. */
INLINE void fetch(uintptr_t a, size_t size) {
    a += LINE;
    if (size == 4) __builtin_prefetch(plane8(a, 0));
    for (int p = 0; p < 3; p++)
        for (size_t i = 0; i < LINE / size * sizeof(mark_t); i += 64) __builtin_prefetch((const char *)WORDS(p) + i);
    __builtin_prefetch((const void *)a), __builtin_prefetch((const void *)(a + 64));
}

/* Of an access at the first granule of a line that changed nothing: whether none of its granules would. */
INLINE void note(uintptr_t a, size_t size, bool write) {
    if (!fast.turn) return;
    const four *w = WORDS(0), *r = WORDS(1), *q = WORDS(2);
    four fine = finer_in(a, size);
    for (size_t i = 0; i < LINE / size / 4; i++)
        fine &= write ? writes_known(w[i], r[i], q[i]) : reads_known(w[i], r[i], q[i]);
    if (all_of(fine)) NOTED(a, size, write) = a | fast.turn;
}
static __attribute__((noinline)) void note_read8(uintptr_t a) { note(a, 8, false); }
static __attribute__((noinline)) void note_read4(uintptr_t a) { note(a, 4, false); }
static __attribute__((noinline)) void note_write8(uintptr_t a) { note(a, 8, true); }
static __attribute__((noinline)) void note_write4(uintptr_t a) { note(a, 4, true); }

/* Of the first granule of a line that is read, where nobody was in this phase: whether nobody was at the others. */
INLINE void note_fresh(uintptr_t a, size_t size) {
    fetch(a, size);
    const four *w = WORDS(0), *r = WORDS(1);
    four fine = finer_in(a, size);
    for (size_t i = 0; i < LINE / size / 4; i++) fine &= over_in(w[i]) & over_in(r[i]);
    if (all_of(fine)) NOTED(a, size, false) = (a + size) | fast.fresh;
    else changes(a, size);
}
static __attribute__((noinline)) void note_fresh8(uintptr_t a) { note_fresh(a, 8); }
static __attribute__((noinline)) void note_fresh4(uintptr_t a) { note_fresh(a, 4); }

/* --- one access -------------------------------------------------------------------------------------------------- */

static __attribute__((noinline)) void otherwise(uintptr_t a, size_t size, bool write, uintptr_t from) {
    if (now.apart) hook(a, size, write, 0, from);
    else looked_at(a, size, write, 0, place_of(from));
}

/* The chain of frames goes past a hook, which needs none of its own where nothing is to be looked at. */
#define HOOK __attribute__((optimize("omit-frame-pointer"), section("weft_hooks")))

#define AT(p) (size == 8 ? plane8(a, p) : plane4(a, p))
#define IN_LINE (a & (LINE - size))

/* The last mark that was made at a place, which lies `from` bytes into memory. */
INLINE mark_t last_mark(uintptr_t from) { return *(mark_t *)(fast.marks + from * sizeof(mark_t)); }

/* Where it is the running strand's, that has touched memory already. */
INLINE void takes(mark_t *to, uintptr_t from) {
    mark_t m = last_mark(from);
    if (!is_mine(&fast, m)) return first_here(to, place_of(from));
    *to = m;
}

INLINE void reads(uintptr_t a, size_t size, uintptr_t from) {
    if (a % size || (size == 4 && *plane8(a, 0) != SPLIT)) return otherwise(a, size, false, from);
    enum look look = read_looks(&fast, AT(0), AT(1), AT(2));
    if (look == NOTHING_NEW) {
        if (IN_LINE) return;
        return size == 8 ? note_read8(a) : note_read4(a);
    }
    if (look == TO_JUDGE || ON_STACK(&fast, a)) return otherwise(a, size, false, from);
    if (look == TAKE_SECOND) return takes(AT(2), from);
    if (IN_LINE) changes(a, size);
    else if (size == 8) note_fresh8(a);
    else note_fresh4(a);
    takes(AT(1), from);
}
HOOK static __attribute__((noinline)) void reads8(uintptr_t a, uintptr_t from) { reads(a, 8, from); }
HOOK static __attribute__((noinline)) void reads4(uintptr_t a, uintptr_t from) { reads(a, 4, from); }

INLINE void read_hook(uintptr_t a, size_t size) {
    uint64_t *n = &NOTED(a, size, false), line = a & ~(uintptr_t)(LINE - size);
    if (*n == (line | fast.turn)) return;
    if (*n == (a | fast.fresh)) {
        *n += size;
        return takes(AT(1), PLACE);
    }
    return size == 8 ? reads8(a, PLACE) : reads4(a, PLACE);
}

INLINE void write_hook(uintptr_t a, size_t size) {
    if (NOTED(a, size, true) == ((a & ~(uintptr_t)(LINE - size)) | fast.turn)) return;
    if (a % size || (size == 4 && *plane8(a, 0) != SPLIT)) return otherwise(a, size, true, PLACE);
    enum look look = write_looks(&fast, AT(0), AT(1), AT(2));
    if (look == NOTHING_NEW) {
        if (IN_LINE) return;
        return size == 8 ? note_write8(a) : note_write4(a);
    }
    if (look == TO_JUDGE || ON_STACK(&fast, a)) return otherwise(a, size, true, PLACE);
    changes(a, size);
    takes(AT(0), PLACE);
}

/* A program that waits for another thread by reading must let that one run. */
void spins(void) {
    static unsigned turns;
    if (++turns % 64 == 0) yield_to_other_threads();
}

#define OTHER_HOOKS(n)                                                                                                 \
    HOOK void __tsan_unaligned_read##n(uintptr_t a) { hook(a, n, false, 0, PLACE); }                                   \
    HOOK void __tsan_unaligned_write##n(uintptr_t a) { hook(a, n, true, 0, PLACE); }                                   \
    HOOK void __tsan_volatile_read##n(uintptr_t a) { hook(a, n, false, 0, PLACE), spins(); }                           \
    HOOK void __tsan_volatile_write##n(uintptr_t a) { hook(a, n, true, 0, PLACE); }                                    \
    HOOK void __tsan_unaligned_volatile_read##n(uintptr_t a) { hook(a, n, false, 0, PLACE); }                          \
    HOOK void __tsan_unaligned_volatile_write##n(uintptr_t a) { hook(a, n, true, 0, PLACE); }
#define HOOKS(n)                                                                                                       \
    HOOK void __tsan_read##n(uintptr_t a) { hook(a, n, false, 0, PLACE); }                                             \
    HOOK void __tsan_write##n(uintptr_t a) { hook(a, n, true, 0, PLACE); }                                             \
    OTHER_HOOKS(n)
#define FAST_HOOKS(n)                                                                                                  \
    HOOK void __tsan_read##n(uintptr_t a) { read_hook(a, n); }                                                         \
    HOOK void __tsan_write##n(uintptr_t a) { write_hook(a, n); }                                                       \
    OTHER_HOOKS(n)
HOOKS(1)
HOOKS(2)
FAST_HOOKS(4)
FAST_HOOKS(8)
HOOKS(16)

void __tsan_init(void) {}
void __tsan_func_entry(void *p) { (void)p; }
void __tsan_func_exit(void) {}
void __tsan_vptr_update(void **a, void *b) { (void)a, (void)b; }
void __tsan_vptr_read(void **a) { (void)a; }
void __tsan_read_range(uintptr_t a, size_t n) { check_range_access(a, n, false, place_of(PLACE)); }
void __tsan_write_range(uintptr_t a, size_t n) { check_range_access(a, n, true, place_of(PLACE)); }
