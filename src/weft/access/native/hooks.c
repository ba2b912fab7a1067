/* The compiler's access hooks: linked into what `weft cc` builds.
 *
 * The compiler puts a call before every load and store (-fsanitize=thread; its own runtime is not used). Here the address
 * is held against what the recorder is interested in. Without a recorder that is nothing.
 */
#include "client.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define PLACE ((uintptr_t)__builtin_return_address(0))

/* These two are known by name to the program's own code (assembler.py), which comes here where the second is not 0 only. */
volatile uint8_t weft_hook_pages[WEFT_PAGES];
volatile uintptr_t weft_hook_span;
static volatile uintptr_t range_low;
static struct weft_client client = {.version = WEFT_CLIENT_VERSION,
                                    .weft = WEFT_VERSION,
                                    .pages = weft_hook_pages,
                                    .low = &range_low,
                                    .span = &weft_hook_span};

/* Weak: a program that is linked statically has no dlsym, and no recorder either. */
extern void *dlsym(void *handle, const char *name) __attribute__((weak));

/* When the program is loaded: hand the hooks' tables to the recorder, if one is preloaded. */
__attribute__((constructor)) static void join_recorder(void) {
    if (!dlsym) return;
    void (*join)(struct weft_client *) = (void (*)(struct weft_client *))dlsym(NULL, "weft_access_join");
    if (join) join(&client);
}

/* When the program ends: tell the recorder, if it joined one, that the hooks' tables are gone. */
__attribute__((destructor)) static void leave_recorder(void) {
    if (!client.touched || !dlsym) return;
    void (*leave)(struct weft_client *) = (void (*)(struct weft_client *))dlsym(NULL, "weft_access_leave");
    if (leave) leave(&client);
}

/* Tell the recorder of an access if it watches this page for reads or writes. Anything else passes in a few
 * instructions. */
static inline __attribute__((always_inline)) void report_watched_access(uintptr_t address, size_t byte_count,
                                                                        unsigned kind, uintptr_t return_address) {
    uint8_t counts = kind & WEFT_HOOK_WRITE ? WEFT_PAGE_READS | WEFT_PAGE_WRITES : WEFT_PAGE_READS;
    if (LIKELY(!(weft_hook_pages[(address >> WEFT_PAGE_SHIFT) % WEFT_PAGES] & counts))) return;
    uint8_t held = client.fine[(address >> WEFT_FINE_SHIFT) % WEFT_FINE] |
                   client.coarse[(address >> WEFT_COARSE_SHIFT) % WEFT_COARSE];
    if (held & counts) client.touched(address, byte_count, kind, return_address);
}

/* Tell the recorder of an access that may span pages, if it touches the watched range at all. */
static inline void report_watched_range(uintptr_t address, size_t byte_count, unsigned kind, uintptr_t return_address) {
    if (LIKELY(!weft_hook_span || !byte_count || address >= range_low + weft_hook_span ||
               address + byte_count <= range_low))
        return;
    client.touched(address, byte_count, kind, return_address);
}

/* Tell the recorder, if there is one, what the calling thread does for the order of threads. `moment`: until when others
 * had let go what it takes over, 0: until now. Return the moment for WEFT_HOOK_FORK. */
static inline uint64_t report_synchronisation(unsigned kinds, uint64_t moment) {
    return UNLIKELY(client.synchronised != NULL) ? client.synchronised(kinds, moment) : 0;
}
#define SYNCHRONISE(kinds) report_synchronisation(kinds, 0)
#define SYNCHRONISE_AT(kinds, moment) report_synchronisation(kinds, moment)
#define IS_SYNCHRONISATION_RECORDED (client.synchronised != NULL)

#ifdef __x86_64__
/* What a loop asks (assembler.py), in its caller's frame: for how many iterations at most it may leave out the hooks of an
 * access, and of what lies up to `extent` bytes after it. Only `most` changes. */
struct question {
    uint64_t mine;
    int64_t most;
    uintptr_t address;
    int64_t step;
    uint64_t extent, bits;
};
/* Answer a loop's question: set question->most to how many iterations may leave out the hooks of an access before they
 * touch a watched page; 0: none. Called from assembly, by name. */
__attribute__((used, target("general-regs-only"))) static void limit_unchecked_iterations(struct question *question) {
    int64_t low = (int64_t)(question->address >> WEFT_PAGE_SHIFT);
    int64_t high = (int64_t)((question->address + question->extent) >> WEFT_PAGE_SHIFT);
    for (int64_t page = low; page <= high; page++)
        if (weft_hook_pages[page % WEFT_PAGES] & question->bits) question->most = 0;
    int64_t way = question->most ? (question->most - 1) * question->step : 0;
    int64_t up = (int64_t)((question->address + question->extent + (uint64_t)way) >> WEFT_PAGE_SHIFT);
    int64_t down = (int64_t)((question->address + (uint64_t)way) >> WEFT_PAGE_SHIFT);
    for (int64_t page = high + 1; way > 0 && page <= up; page++)
        if (weft_hook_pages[page % WEFT_PAGES] & question->bits) {
            int64_t left = (page << WEFT_PAGE_SHIFT) - (int64_t)(question->address + question->extent);
            question->most = (left + question->step - 1) / question->step;
            return;
        }
    for (int64_t page = low - 1; way < 0 && page >= down; page--)
        if (weft_hook_pages[page % WEFT_PAGES] & question->bits) {
            question->most = ((int64_t)question->address - ((page + 1) << WEFT_PAGE_SHIFT)) / -question->step + 1;
            return;
        }
}

/* Keeps all registers but %rax, for the program's code does not know of a call. */
__asm__(".text\n\t.globl weft_hook_reach\n\t.hidden weft_hook_reach\n\t.type weft_hook_reach, @function\n"
        "weft_hook_reach:\n\t.cfi_startproc\n"
        "\tpush %rcx\n\tpush %rdx\n\tpush %rsi\n\tpush %rdi\n\tpush %r8\n\tpush %r9\n\tpush %r10\n\tpush %r11\n"
        "\t.cfi_adjust_cfa_offset 64\n\tlea 72(%rsp), %rdi\n\tcall limit_unchecked_iterations\n"
        "\tpop %r11\n\tpop %r10\n\tpop %r9\n\tpop %r8\n\tpop %rdi\n\tpop %rsi\n\tpop %rdx\n\tpop %rcx\n"
        "\t.cfi_adjust_cfa_offset -64\n\tret\n\t.cfi_endproc\n\t.size weft_hook_reach, .-weft_hook_reach\n");
#endif

#define HOOKS(n)                                                                                                       \
    void __tsan_read##n(void *p) { report_watched_access((uintptr_t)p, n, WEFT_HOOK_READ, PLACE); }                    \
    void __tsan_write##n(void *p) { report_watched_access((uintptr_t)p, n, WEFT_HOOK_WRITE, PLACE); }                  \
    void __tsan_volatile_read##n(void *p) {                                                                            \
        SYNCHRONISE(WEFT_HOOK_UNKNOWN); /* the value comes later, at no moment that is known */                        \
        report_watched_access((uintptr_t)p, n, WEFT_HOOK_READ | WEFT_HOOK_VOLATILE, PLACE);                            \
    }                                                                                                                  \
    void __tsan_volatile_write##n(void *p) {                                                                           \
        SYNCHRONISE(WEFT_HOOK_RELEASE);                                                                                \
        report_watched_access((uintptr_t)p, n, WEFT_HOOK_WRITE | WEFT_HOOK_VOLATILE, PLACE);                           \
    }                                                                                                                  \
    void __tsan_read_write##n(void *p) {                                                                               \
        report_watched_access((uintptr_t)p, n, WEFT_HOOK_READ | WEFT_HOOK_WRITE, PLACE);                               \
    }
#define UNALIGNED(n)                                                                                                   \
    void __tsan_unaligned_read##n(void *p) { report_watched_range((uintptr_t)p, n, WEFT_HOOK_READ, PLACE); }           \
    void __tsan_unaligned_write##n(void *p) { report_watched_range((uintptr_t)p, n, WEFT_HOOK_WRITE, PLACE); }         \
    void __tsan_unaligned_read_write##n(void *p) {                                                                     \
        report_watched_range((uintptr_t)p, n, WEFT_HOOK_READ | WEFT_HOOK_WRITE, PLACE);                                \
    }                                                                                                                  \
    void __tsan_unaligned_volatile_read##n(void *p) {                                                                  \
        SYNCHRONISE(WEFT_HOOK_UNKNOWN);                                                                                \
        report_watched_range((uintptr_t)p, n, WEFT_HOOK_READ | WEFT_HOOK_VOLATILE, PLACE);                             \
    }                                                                                                                  \
    void __tsan_unaligned_volatile_write##n(void *p) {                                                                 \
        SYNCHRONISE(WEFT_HOOK_RELEASE);                                                                                \
        report_watched_range((uintptr_t)p, n, WEFT_HOOK_WRITE | WEFT_HOOK_VOLATILE, PLACE);                            \
    }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
UNALIGNED(2)
UNALIGNED(4)
UNALIGNED(8)
UNALIGNED(16)

void __tsan_read_range(void *p, size_t n) { report_watched_range((uintptr_t)p, n, WEFT_HOOK_READ, PLACE); }
void __tsan_write_range(void *p, size_t n) { report_watched_range((uintptr_t)p, n, WEFT_HOOK_WRITE, PLACE); }
void __tsan_init(void) {}
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void) {}
void __tsan_vptr_update(void **p, void *v) {
    (void)v, report_watched_access((uintptr_t)p, sizeof *p, WEFT_HOOK_WRITE, PLACE);
}
void __tsan_vptr_read(void **p) { report_watched_access((uintptr_t)p, sizeof *p, WEFT_HOOK_READ, PLACE); }
void __tsan_ignore_thread_begin(void) {}
void __tsan_ignore_thread_end(void) {}

/* ---- atomic operations: the compiler calls these in place of its own instructions ----
 *
 * The order asked for is a variable here; the strongest there is holds in every case. */

/* Tell the recorder of an atomic operation that is about to be done: of its access, and that what the thread did before
 * is let go. */
static inline __attribute__((always_inline)) void begin_atomic(uintptr_t address, size_t byte_count, unsigned kind,
                                                               uintptr_t return_address) {
    report_watched_access(address, byte_count, kind, return_address);
    SYNCHRONISE(WEFT_HOOK_RELEASE);
}
#define READS (WEFT_HOOK_READ | WEFT_HOOK_ATOMIC)
#define WRITES (WEFT_HOOK_WRITE | WEFT_HOOK_ATOMIC)
#define UPDATES (READS | WRITES)
#define FETCH(n, type, op)                                                                                             \
    type __tsan_atomic##n##_fetch_##op(volatile type *p, type v, int order) {                                          \
        (void)order, begin_atomic((uintptr_t)p, sizeof *p, UPDATES, PLACE);                                            \
        type before = __atomic_fetch_##op(p, v, __ATOMIC_SEQ_CST);                                                     \
        SYNCHRONISE(WEFT_HOOK_ACQUIRE);                                                                                \
        return before;                                                                                                 \
    }
#define EXCHANGE(n, type, strength, weak)                                                                              \
    int __tsan_atomic##n##_compare_exchange_##strength(volatile type *p, type *expected, type v, int order,            \
                                                       int fail) {                                                     \
        (void)order, (void)fail, begin_atomic((uintptr_t)p, sizeof *p, UPDATES, PLACE);                                \
        int done = __atomic_compare_exchange_n(p, expected, v, weak, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);              \
        SYNCHRONISE(WEFT_HOOK_ACQUIRE);                                                                                \
        return done;                                                                                                   \
    }
#define ATOMIC(n, type)                                                                                                \
    type __tsan_atomic##n##_load(const volatile type *p, int order) {                                                  \
        (void)order, begin_atomic((uintptr_t)p, sizeof *p, READS, PLACE);                                              \
        type value = __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                             \
        SYNCHRONISE(WEFT_HOOK_ACQUIRE);                                                                                \
        return value;                                                                                                  \
    }                                                                                                                  \
    void __tsan_atomic##n##_store(volatile type *p, type v, int order) {                                               \
        (void)order, begin_atomic((uintptr_t)p, sizeof *p, WRITES, PLACE);                                             \
        __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                                      \
    }                                                                                                                  \
    type __tsan_atomic##n##_exchange(volatile type *p, type v, int order) {                                            \
        (void)order, begin_atomic((uintptr_t)p, sizeof *p, UPDATES, PLACE);                                            \
        type before = __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                     \
        SYNCHRONISE(WEFT_HOOK_ACQUIRE);                                                                                \
        return before;                                                                                                 \
    }                                                                                                                  \
    FETCH(n, type, add)                                                                                                \
    FETCH(n, type, sub)                                                                                                \
    FETCH(n, type, and)                                                                                                \
    FETCH(n, type, or)                                                                                                 \
    FETCH(n, type, xor)                                                                                                \
    FETCH(n, type, nand)                                                                                               \
    EXCHANGE(n, type, strong, 0)                                                                                       \
    EXCHANGE(n, type, weak, 1)                                                                                         \
    type __tsan_atomic##n##_compare_exchange_val(volatile type *p, type expected, type v, int order, int fail) {       \
        (void)order, (void)fail, begin_atomic((uintptr_t)p, sizeof *p, UPDATES, PLACE);                                \
        __atomic_compare_exchange_n(p, &expected, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                           \
        SYNCHRONISE(WEFT_HOOK_ACQUIRE);                                                                                \
        return expected;                                                                                               \
    }
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)
void __tsan_atomic_thread_fence(int order) {
    SYNCHRONISE(WEFT_HOOK_UNKNOWN); /* the plain accesses around it may hand something over */
    (void)order, __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int order) { (void)order, __atomic_signal_fence(__ATOMIC_SEQ_CST); }

/* ---- what libraries do for the program: the linker leads its calls here (--wrap) ---- */
typedef uintptr_t library_place;
#define HERE PLACE
#define WATCHED UNLIKELY(weft_hook_span)
#define RANGE(p, n, write, place)                                                                                      \
    report_watched_range((uintptr_t)(p), n, (write) ? WEFT_HOOK_WRITE : WEFT_HOOK_READ, place)
#define WAITING(call)                                                                                                  \
    ({                                                                                                                 \
        SYNCHRONISE(WEFT_HOOK_RELEASE);                                                                                \
        __typeof__(call) result_of_call = (call);                                                                      \
        SYNCHRONISE(WEFT_HOOK_ACQUIRE);                                                                                \
        result_of_call;                                                                                                \
    })
#include "libc.h"
#include "fortran.h"
#include "synchronisation.h"

/* Replace clang's own memcpy: tell the recorder what is read and written. */
void *__tsan_memcpy(void *to, const void *from, size_t n) {
    READ(from, n), WRITTEN(to, n);
    return __real_memcpy(to, from, n);
}

/* Replace clang's own memmove: tell the recorder what is read and written. */
void *__tsan_memmove(void *to, const void *from, size_t n) {
    READ(from, n), WRITTEN(to, n);
    return __real_memmove(to, from, n);
}

void *__tsan_memset(void *to, int value, size_t n) {
    WRITTEN(to, n);
    return __real_memset(to, value, n);
}

/* _FORTIFY_SOURCE's forms. They end the program where `n` is more than `room`. */
#define CHECKED(name, second, reads)                                                                                   \
    void *__real___##name##_chk(void *to, second from, size_t n, size_t room);                                         \
    void *__wrap___##name##_chk(void *to, second from, size_t n, size_t room) {                                        \
        if (UNLIKELY(weft_hook_span) && n <= room) {                                                                   \
            if (reads) report_watched_range((uintptr_t)from, n, WEFT_HOOK_READ, PLACE);                                \
            report_watched_range((uintptr_t)to, n, WEFT_HOOK_WRITE, PLACE);                                            \
        }                                                                                                              \
        return __real___##name##_chk(to, from, n, room);                                                               \
    }
CHECKED(memcpy, const void *, 1)
CHECKED(memmove, const void *, 1)
CHECKED(memset, int, 0)

/* ---- memory that the program gives back: what lies there later is something else ---- */
extern size_t malloc_usable_size(void *p) __attribute__((weak));

/* Tell the recorder, if it watches memory there, that a block is being freed: what lies there later is something
 * else. */
static inline void report_freed_memory(void *block, size_t byte_count) {
    uintptr_t address = (uintptr_t)block;
    if (block) SYNCHRONISE(WEFT_HOOK_RELEASE); /* for the thread that gets the memory next */
    if (UNLIKELY(weft_hook_span) && address < range_low + weft_hook_span && address + byte_count > range_low)
        client.touched(address, byte_count, WEFT_HOOK_FREE, 0);
}

static inline size_t block_size(void *p) {
    return UNLIKELY(weft_hook_span) && malloc_usable_size ? malloc_usable_size(p) : 1;
}

void __real_free(void *p);
void __wrap_free(void *p) {
    report_freed_memory(p, block_size(p));
    __real_free(p);
}

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n) {
    report_freed_memory(p, block_size(p));
    return __real_realloc(p, n);
}

/* C++'s delete, of one and of many, with and without the size. In a program without it there is none. */
#define DELETES(name, more, given, n)                                                                                  \
    extern void __real_##name more __attribute__((weak));                                                              \
    void __wrap_##name more {                                                                                          \
        report_freed_memory(p, n);                                                                                     \
        if (__real_##name) __real_##name given;                                                                        \
    }
DELETES(_ZdlPv, (void *p), (p), 1)
DELETES(_ZdaPv, (void *p), (p), 1)
DELETES(_ZdlPvm, (void *p, size_t n), (p, n), n)
DELETES(_ZdaPvm, (void *p, size_t n), (p, n), n)
