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
 *     fresh    granule    from there on nobody was there in this phase: who accesses it writes its mark, and goes on
 *
 * Examples: a strand that adds to c[0] ... c[15] a second time finds at c[0] that all 16 have its marks; c[1] ... c[15] are
 * compared with the note alone. Who reads a[0] first in a phase finds a[0] ... a[15] fresh; a[1], by whomever, is then read
 * without a look at its words.
 */
#include "shadow.h"

#include <string.h>

/* What accesses are compared with, as it holds until the next refresh_hooks(). */
struct looks {
    mark_t old, mine, room, row, row_room; /* marks: below `old` over; the strand's; of the row that it is of */
    uintptr_t stack, stack_size, marks;
    uint64_t turn, fresh; /* 0: nothing is noted */
    uintptr_t low, high;  /* where the running loop's code reads its bounds, which nobody else does */
};

/* `fast` is `all`, or has nothing over, mine or of a row where accesses are looked at one by one. */
static struct looks all, fast;

#define LINE 128
#define LINES 512
#define TURN ((uint64_t)1 << 47)
static uint64_t noted[4][LINES];       /* for reads and writes of 8 bytes, and of 4 */
static uint64_t fresh_noted[2][LINES]; /* for accesses of 8 bytes, and of 4 */
static uint64_t turn, fresh;           /* of one row of numbers */
static struct thread *fresh_for;

/* Drop the cached per-line results of the running strand (iteration, task or thread). `with_fresh`: also those about
 * memory that nobody has touched in this phase. */
static inline void drop_cached_lines(bool with_fresh) {
    turn += TURN;
    if (!turn) {
        memset(noted, 0, sizeof noted);
        memset(fresh_noted, 0, sizeof fresh_noted);
        turn = TURN;
        with_fresh = true;
    }
    if (with_fresh) {
        fresh = turn;
        turn += TURN;
    }
    fast.turn = now.apart ? 0 : turn;
    fast.fresh = now.apart ? 0 : fresh;
}

void forget_all_notes(void) { drop_cached_lines(true); }

/* Return whether the running strand is another iteration of the same loop in the same thread, so that cached results
 * stay valid. */
static bool is_next_of_row(void) {
    return fast.turn && !now.apart && now.in_row && all.row_room && all.row == now.row_mark && all.old == now.old &&
           all.stack == me->stack_low;
}

/* Recompute the values that the access hooks compare with, after the running strand (iteration, task or thread) or the
 * range of valid marks has changed. */
void refresh_hooks(void) {
    bool is_going_on = is_next_of_row();
    all.mine = fast.mine = now.mine;
    all.room = fast.room = now.room;
    if (!is_going_on) {
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
    drop_cached_lines(!is_going_on && fresh_for != me);
    fresh_for = me; /* what is fresh for one thread may be another one's own stack */
}

/* Begin the next iteration of a row in the running thread, if its index is the one that its series foresees and nothing
 * else was made or ordered since the previous one began, which accessed memory. Return whether it has begun. */
bool begin_next_of_row(uint32_t loop, int64_t index) {
    strand_t strand = now.next;
    if (me->current != strand - 1 || me->plain != strand - 1 || now.row_end != strand || now.series.end != strand ||
        now.series.loop != loop || index - now.series.index != now.series.step || !now.in_row || now.apart)
        return false;
    now.series.index = index;
    now.series.end = now.row_end = ++now.next;
    me->current = me->plain = now.current = now.newest = strand;
    now.first_turn = true;
    now.touched = false;
    now.atomic_since = now.atomic;
    begin_turn_of_marks();
    if (!now.calm_room) now.calm = now.mine;
    all.mine = fast.mine = now.mine;
    all.room = fast.room = now.room;
    fast.turn = turn += TURN;
    if (!turn) drop_cached_lines(true);
    return true;
}

void set_bounds(const void *low, const void *high) { fast.low = (uintptr_t)low, fast.high = (uintptr_t)high; }

#define FRESH(address, size) fresh_noted[(size) == 4][(address) / LINE % LINES]
#define NOTED(address, size, write) noted[2 * ((size) == 4) + (write)][(address) / LINE % LINES]

/* Drop the note that nobody has touched a line from a granule on, because the one at `address` changes by something
 * other than the next access there. */
INLINE void forget_fresh_note(uintptr_t address, size_t size) {
    uint64_t *note = &FRESH(address, size);
    if ((*note ^ address) % TURN < LINE && *note % LINE <= address % LINE) *note = 0;
}

void forget_fresh_notes(uintptr_t address) { forget_fresh_note(address, 8), forget_fresh_note(address, 4); }

void forget_notes_of(uintptr_t low, uintptr_t high) {
    if (high - low >= 16 * LINE) return forget_all_notes(); /* that takes less */
    for (uintptr_t line = low & ~(uintptr_t)(LINE - 1); line < high; line += LINE) {
        for (int i = 0; i < 4; i++) noted[i][line / LINE % LINES] = 0;
        for (int i = 0; i < 2; i++) fresh_noted[i][line / LINE % LINES] = 0;
    }
}

/* --- what is most often there ------------------------------------------------------------------------------------ */

enum look { NOTHING_NEW, TAKE_IT, TAKE_SECOND, TO_JUDGE };

INLINE bool is_own_mark(const struct looks *looks, mark_t mark) { return mark - looks->mine < looks->room; }
INLINE bool is_row_mark(const struct looks *looks, mark_t mark) {
    return mark & ROW && mark - looks->row < looks->row_room;
}

/* Return whether the access with this mark (its ID in the shadow) happens before the running strand, as far as is known
 * without a search. */
INLINE bool is_access_of_mark_earlier(const struct looks *looks, mark_t mark) {
    return mark < looks->old || (looks->old && is_calm_mark(mark)) ||
           (now.any_past && looks->old &&
            (mark == now.past[0] || mark == now.past[1] || mark == now.past[2] || mark == now.past[3]));
}

/* Decide from the three shadow words of a granule how to handle a read. Mostly nothing is new: the strand has read it
 * before, or it had only readers in this phase. */
INLINE enum look classify_read(const struct looks *looks, const mark_t *write_word, const mark_t *read_word,
                               const mark_t *second_read_word) {
    mark_t read_mark = *read_word;
    if (is_own_mark(looks, read_mark)) return NOTHING_NEW;
    mark_t write_mark = *write_word;
    if (write_mark >= looks->old && !is_own_mark(looks, write_mark) && !is_access_of_mark_earlier(looks, write_mark))
        return TO_JUDGE;
    if (is_access_of_mark_earlier(looks, read_mark)) return TAKE_IT;
    mark_t second_mark = *second_read_word;
    if (is_own_mark(looks, second_mark)) return NOTHING_NEW;
    if (!is_row_mark(looks, read_mark)) return TO_JUDGE;
    return is_row_mark(looks, second_mark) ? NOTHING_NEW : second_mark < looks->old ? TAKE_SECOND : TO_JUDGE;
}

/* Decide from the three shadow words of a granule how to handle a write. Mostly nobody else has touched it in this
 * phase. */
INLINE enum look classify_write(const struct looks *looks, const mark_t *write_word, const mark_t *read_word,
                                const mark_t *second_read_word) {
    mark_t read_mark = *read_word;
    if (read_mark >= looks->old) {
        mark_t second_mark = *second_read_word;
        if ((!is_own_mark(looks, read_mark) && !is_access_of_mark_earlier(looks, read_mark)) ||
            (second_mark >= looks->old && !is_own_mark(looks, second_mark)))
            return TO_JUDGE;
    }
    mark_t write_mark = *write_word;
    return is_own_mark(looks, write_mark)                 ? NOTHING_NEW
           : is_access_of_mark_earlier(looks, write_mark) ? TAKE_IT
                                                          : TO_JUDGE;
}

/* --- all that may be there --------------------------------------------------------------------------------------- */

/* Store a new mark (the ID of an access) of the running strand in a shadow word. */
static __attribute__((noinline)) void put_new_mark(mark_t *word, uint32_t place) {
    now.touched = true;
    *word = make_mark(place);
}

/* Store a new mark of the running strand in a shadow word, at a place whose last mark is not of this turn. A strand that
 * never ran before needs no look at that one, as make_mark() takes. */
static __attribute__((noinline)) void put_first_mark(mark_t *word, uintptr_t return_address) {
    uint32_t place = place_of(return_address);
    mark_t mark = now.mark;
    if (!now.first_turn || mark >= PLAIN_END || is_library_place(place)) return put_new_mark(word, place);
    now.touched = true;
    struct mark *made = plain_marks + (mark - now.old) / 2;
    __builtin_prefetch(made + 64, 1);
    *made = (struct mark){now.current, place};
    now.mark = mark + 2;
    *word = last_marks[place] = mark | now.in_row;
}

#define ON_STACK(l, address) ((address) - (l)->stack < (l)->stack_size)

/* Try to handle an access by its granule's three shadow words alone: return true if that was possible, and the words
 * are updated. */
INLINE bool settle_in_words(mark_t *write_word, mark_t *read_word, mark_t *second_read_word, uintptr_t address,
                            bool is_write, uint32_t place) {
    enum look look = is_write ? classify_write(&all, write_word, read_word, second_read_word)
                              : classify_read(&all, write_word, read_word, second_read_word);
    if (look == NOTHING_NEW) return true;
    if (look == TO_JUDGE || ON_STACK(&all, address)) return false;
    forget_fresh_notes(address);
    put_new_mark(look == TAKE_SECOND ? second_read_word : is_write ? write_word : read_word, place);
    return true;
}

#define KNOWN(plane) settle_in_words(plane(address, 0), plane(address, 1), plane(address, 2), address, is_write, place)

/* Try to handle an access of 1, 4 or 8 bytes by its granule's shadow words alone. Return false if it needs the full
 * check. */
static __attribute__((noinline)) bool try_quick_check(uintptr_t address, size_t size, bool is_write, uint32_t place) {
    if (size == 8) return address % 8 == 0 && KNOWN(find_word8);
    if (size == 4) return address % 4 == 0 && *find_word8(address, 0) == SPLIT && KNOWN(find_word4);
    return size == 1 && *find_word8(address, 0) == SPLIT && *find_word4(address, 0) == SPLIT && KNOWN(find_word1);
}

/* Try to check an atomic access of 4 or 8 bytes by its granule's shadow words alone. Return false if it needs the full
 * check. */
static bool try_atomic_check(uintptr_t address, size_t size, bool is_write, uint32_t place) {
    if (address % size || now.locks || address - me->private_low < me->private_high - me->private_low) return false;
    if (size == 4 && *find_word8(address, 0) != SPLIT) return false;
    if (size != 4 && size != 8) return false;
    mark_t *words[3];
    for (int p = 0; p < 3; p++) words[p] = size == 8 ? find_word8(address, p) : find_word4(address, p);
    if (!check_atomic_granule(words[0], words[1], words[2], address, is_write, place | ATOMIC)) return false;
    forget_fresh_notes(address);
    now.touched = true;
    note_lowest_stack_address(address);
    return true;
}

/* Do the full check of an access: locks, private variables, races. `flag`: ATOMIC or 0. */
static __attribute__((noinline)) void check_fully(uintptr_t address, size_t size, bool is_write, uint32_t flag,
                                                  uint32_t place) {
    now.touched = true;
    note_lowest_stack_address(address);
    if (me->held || me->released) note_access_near_lock(address, is_write);
    if (address - me->private_low < me->private_high - me->private_low)
        check_private_access(address, size, is_write, place);
    place |= flag;
    mark_t *word = find_word8(address, 0);
    if (size == 8 && address % 8 == 0 && *word < SPECIAL)
        check_granule(word, find_word8(address, 1), find_word8(address, 2), address, 8, is_write, place);
    else if (size == 4 && address % 4 == 0 && *word == SPLIT && *find_word4(address, 0) < SPECIAL)
        check_granule(find_word4(address, 0), find_word4(address, 1), find_word4(address, 2), address, 4, is_write,
                      place);
    else check_access(address, size, is_write, place);
}

/* Check an access against the copies on the device. Return whether that is all: false if it must be checked for races,
 * too. */
static __attribute__((noinline)) bool check_with_devices(uintptr_t address, size_t size, bool is_write, uint32_t flag,
                                                         uint32_t place) {
    check_mapped_access(address, size, is_write, place);
    return !now.on || (!now.locks && !flag && try_quick_check(address, size, is_write, place));
}

/* Check an access for which the compiled program has called a hook. `flag`: ATOMIC or 0; `return_address`: of the hook,
 * says where. */
void check_hooked_access(uintptr_t address, size_t size, bool is_write, uint32_t flag, uintptr_t return_address) {
    if (!now.apart) {
        uint32_t place = place_of(return_address);
        if (flag ? try_atomic_check(address, size, is_write, place) : try_quick_check(address, size, is_write, place))
            return;
    } else if (!now.on && !now.devices) {
        return;
    } else if (now.devices && check_with_devices(address, size, is_write, flag, place_of(return_address))) {
        return;
    }
    check_fully(address, size, is_write, flag, place_of(return_address));
}

/* --- lines ------------------------------------------------------------------------------------------------------- */

/* Four words at once: all bits of those that a comparison holds of. */
typedef uint32_t four __attribute__((vector_size(16)));
INLINE four is_within_each(four marks, mark_t from, mark_t room) { return (four)(marks - from < room); }
INLINE bool are_all_set(four mask) {
    typedef uint64_t two __attribute__((vector_size(16)));
    return (((two)mask)[0] & ((two)mask)[1]) == UINT64_MAX;
}

INLINE four is_own_each(four marks) { return is_within_each(marks, fast.mine, fast.room); }
INLINE four is_of_row_each(four marks) {
    return (four)((marks & ROW) != 0) & is_within_each(marks, fast.row, fast.row_room);
}
INLINE four is_over_each(four marks) { return (four)(marks < fast.old); }

/* Return, for four granules at once, a mask of those where a read by the running strand changes no shadow word (see
 * classify_read()), as long as no other strand runs. */
INLINE four changes_nothing_by_read(four writes, four reads, four second_reads) {
    return is_own_each(reads) | ((is_over_each(writes) | is_own_each(writes)) & is_of_row_each(reads) &
                                 (is_own_each(second_reads) | is_of_row_each(second_reads)));
}

/* Return, for four granules at once, a mask of those where a write by the running strand changes no shadow word (see
 * classify_write()), as long as no other strand runs. */
INLINE four changes_nothing_by_write(four writes, four reads, four second_reads) {
    return is_own_each(writes) & (is_over_each(reads) | is_own_each(reads)) &
           (is_over_each(second_reads) | is_own_each(second_reads));
}

#define WORDS(p) (four *)(size == 8 ? find_word8(address, p) : find_word4(address, p))

/* Return a mask of the granules of a line whose 4-byte shadow words are valid; all of them if `size` is 8. */
INLINE four mask_split_granules(uintptr_t address, size_t size) {
    const four *coarse = (four *)find_word8(address, 0);
    four mask = ~(four){0};
    for (size_t i = 0; size == 4 && i < LINE / 8 / 4; i++) mask &= (four)(coarse[i] == SPLIT);
    return mask;
}

/* Prefetch the shadow words of the next line, since the processor does not foresee that many streams. */
INLINE void prefetch_next_line(uintptr_t address, size_t size) {
    address += LINE;
    if (size == 4) __builtin_prefetch(find_word8(address, 0));
    for (int p = 0; p < 3; p++)
        for (size_t i = 0; i < LINE / size * sizeof(mark_t); i += 64) __builtin_prefetch((const char *)WORDS(p) + i);
    __builtin_prefetch((const void *)address), __builtin_prefetch((const void *)(address + 64));
}

/* After an access at a line's first granule changed nothing: cache that no access of this kind will change anything in
 * the whole line, if that is so. */
INLINE void cache_unchanging_line(uintptr_t address, size_t size, bool is_write) {
    if (!fast.turn) return;
    const four *writes = WORDS(0), *reads = WORDS(1), *second_reads = WORDS(2);
    four mask = mask_split_granules(address, size);
    for (size_t i = 0; i < LINE / size / 4; i++)
        mask &= is_write ? changes_nothing_by_write(writes[i], reads[i], second_reads[i])
                         : changes_nothing_by_read(writes[i], reads[i], second_reads[i]);
    if (are_all_set(mask)) NOTED(address, size, is_write) = address | fast.turn;
}
static __attribute__((noinline)) void note_read_line8(uintptr_t address) { cache_unchanging_line(address, 8, false); }
static __attribute__((noinline)) void note_read_line4(uintptr_t address) { cache_unchanging_line(address, 4, false); }
static __attribute__((noinline)) void note_written_line8(uintptr_t address) { cache_unchanging_line(address, 8, true); }
static __attribute__((noinline)) void note_written_line4(uintptr_t address) { cache_unchanging_line(address, 4, true); }

/* At the first access of a line in this phase: cache that nobody has touched its other granules, if that is so. */
INLINE void cache_untouched_line(uintptr_t address, size_t size) {
    prefetch_next_line(address, size);
    const four *writes = WORDS(0), *reads = WORDS(1);
    four mask = mask_split_granules(address, size);
    for (size_t i = 0; i < LINE / size / 4; i++) mask &= is_over_each(writes[i]) & is_over_each(reads[i]);
    if (are_all_set(mask)) FRESH(address, size) = (address + size) | fast.fresh;
    else forget_fresh_note(address, size);
}
static __attribute__((noinline)) void note_fresh_line8(uintptr_t address) { cache_untouched_line(address, 8); }
static __attribute__((noinline)) void note_fresh_line4(uintptr_t address) { cache_untouched_line(address, 4); }

/* --- one access -------------------------------------------------------------------------------------------------- */

/* Check an access of 4 or 8 bytes that the fast path could not handle. */
static __attribute__((noinline)) void check_slowly(uintptr_t address, size_t size, bool is_write,
                                                   uintptr_t return_address) {
    if (now.apart) check_hooked_access(address, size, is_write, 0, return_address);
    else check_fully(address, size, is_write, 0, place_of(return_address));
}

/* The chain of frames goes past a hook, which needs none of its own where nothing is to be looked at. */
#define HOOK __attribute__((optimize("omit-frame-pointer"), section("weft_hooks")))

#define AT(p) (size == 8 ? find_word8(address, p) : find_word4(address, p))
#define IN_LINE (address & (LINE - size))

/* Return the newest mark (the ID of an access) that was made by the instruction with this return address. */
INLINE mark_t find_last_mark(uintptr_t return_address) {
    return *(mark_t *)(fast.marks + return_address * sizeof(mark_t));
}

/* Store the running strand's mark for this instruction in a shadow word: its newest one if it is still the strand's
 * own, else a new one. */
INLINE void put_own_mark(mark_t *word, uintptr_t return_address) {
    mark_t mark = find_last_mark(return_address);
    if (!is_own_mark(&fast, mark)) return put_first_mark(word, return_address);
    *word = mark;
}

/* Check a read of 4 or 8 bytes that the per-line cache did not settle. */
INLINE void check_read(uintptr_t address, size_t size, uintptr_t return_address) {
    if (address % size || (size == 4 && *find_word8(address, 0) != SPLIT))
        return check_slowly(address, size, false, return_address);
    enum look look = classify_read(&fast, AT(0), AT(1), AT(2));
    if (look == NOTHING_NEW) {
        if (IN_LINE) return;
        return size == 8 ? note_read_line8(address) : note_read_line4(address);
    }
    if (look == TO_JUDGE || ON_STACK(&fast, address)) return check_slowly(address, size, false, return_address);
    if (look == TAKE_SECOND) return put_own_mark(AT(2), return_address);
    if (IN_LINE) forget_fresh_note(address, size);
    else if (size == 8) note_fresh_line8(address);
    else note_fresh_line4(address);
    put_own_mark(AT(1), return_address);
}
HOOK static __attribute__((noinline)) void check_read8(uintptr_t address, uintptr_t return_address) {
    check_read(address, 8, return_address);
}
HOOK static __attribute__((noinline)) void check_read4(uintptr_t address, uintptr_t return_address) {
    check_read(address, 4, return_address);
}

/* Handle the compiler's hook for a read of 4 or 8 bytes; the per-line cache settles most. */
INLINE void handle_read(uintptr_t address, size_t size) {
    uint64_t *note = &NOTED(address, size, false), line = address & ~(uintptr_t)(LINE - size);
    if (*note == (line | fast.turn)) return;
    uint64_t *fresh_note = &FRESH(address, size);
    if (*fresh_note == (address | fast.fresh)) {
        *fresh_note += size;
        return put_own_mark(AT(1), PLACE);
    }
    if (size == 8 && (address == fast.low || address == fast.high)) return;
    return size == 8 ? check_read8(address, PLACE) : check_read4(address, PLACE);
}

/* Handle the compiler's hook for a write of 4 or 8 bytes; the per-line cache settles most. */
INLINE void handle_write(uintptr_t address, size_t size) {
    if (NOTED(address, size, true) == ((address & ~(uintptr_t)(LINE - size)) | fast.turn)) return;
    uint64_t *fresh_note = &FRESH(address, size), ahead = *fresh_note - (address | fast.fresh);
    if (ahead == 0 ||
        (ahead == size && is_own_mark(&fast, *AT(1)))) { /* or the running strand has just read it first */
        *fresh_note += size - ahead;
        return put_own_mark(AT(0), PLACE);
    }
    if (address % size || (size == 4 && *find_word8(address, 0) != SPLIT))
        return check_slowly(address, size, true, PLACE);
    enum look look = classify_write(&fast, AT(0), AT(1), AT(2));
    if (look == NOTHING_NEW) {
        if (IN_LINE) return;
        return size == 8 ? note_written_line8(address) : note_written_line4(address);
    }
    if (look == TO_JUDGE || ON_STACK(&fast, address)) return check_slowly(address, size, true, PLACE);
    if (IN_LINE || *AT(1) >= fast.old) forget_fresh_note(address, size);
    else if (size == 8) note_fresh_line8(address);
    else note_fresh_line4(address);
    put_own_mark(AT(0), PLACE);
}

/* Let another thread run at every 64th look at one address, and at every 4096th call: a program that polls may wait for
 * that thread. */
void yield_when_polling(uintptr_t address) {
    static struct {
        uintptr_t address;
        unsigned looks;
    } polled[64];
    static unsigned turns;
    unsigned slot = address >> 2 & 63;
    if (polled[slot].address != address) {
        polled[slot].address = address;
        polled[slot].looks = 0;
    }
    if (++polled[slot].looks % 64 == 0 || ++turns % 4096 == 0) yield_to_other_threads();
}

#define OTHER_HOOKS(n)                                                                                                 \
    HOOK void __tsan_unaligned_read##n(uintptr_t address) { check_hooked_access(address, n, false, 0, PLACE); }        \
    HOOK void __tsan_unaligned_write##n(uintptr_t address) { check_hooked_access(address, n, true, 0, PLACE); }        \
    HOOK void __tsan_volatile_read##n(uintptr_t address) {                                                             \
        check_hooked_access(address, n, false, 0, PLACE), yield_when_polling(address);                                 \
    }                                                                                                                  \
    HOOK void __tsan_volatile_write##n(uintptr_t address) { check_hooked_access(address, n, true, 0, PLACE); }         \
    HOOK void __tsan_unaligned_volatile_read##n(uintptr_t address) {                                                   \
        check_hooked_access(address, n, false, 0, PLACE);                                                              \
    }                                                                                                                  \
    HOOK void __tsan_unaligned_volatile_write##n(uintptr_t address) { check_hooked_access(address, n, true, 0, PLACE); }
#define HOOKS(n)                                                                                                       \
    HOOK void __tsan_read##n(uintptr_t address) { check_hooked_access(address, n, false, 0, PLACE); }                  \
    HOOK void __tsan_write##n(uintptr_t address) { check_hooked_access(address, n, true, 0, PLACE); }                  \
    OTHER_HOOKS(n)
#define FAST_HOOKS(n)                                                                                                  \
    HOOK void __tsan_read##n(uintptr_t address) { handle_read(address, n); }                                           \
    HOOK void __tsan_write##n(uintptr_t address) { handle_write(address, n); }                                         \
    OTHER_HOOKS(n)
HOOKS(1)
HOOKS(2)
FAST_HOOKS(4)
FAST_HOOKS(8)
HOOKS(16)

void __tsan_init(void) {}
void __tsan_func_entry(void *p) { (void)p; }
void __tsan_func_exit(void) {}
void __tsan_vptr_update(void **address, void *b) { (void)address, (void)b; }
void __tsan_vptr_read(void **address) { (void)address; }
void __tsan_read_range(uintptr_t address, size_t n) { check_range_access(address, n, false, place_of(PLACE)); }
void __tsan_write_range(uintptr_t address, size_t n) { check_range_access(address, n, true, place_of(PLACE)); }
