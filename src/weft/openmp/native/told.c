/* What was found, as JSON lines: once for each pair of places, with how often. */
#include "openmp.h"

#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int file = -1;
static pid_t owner;

struct line {
    size_t size;
    char text[8192];
};

__attribute__((format(printf, 2, 3))) static void put(struct line *l, const char *form, ...) {
    va_list more;
    va_start(more, form);
    int n = vsnprintf(l->text + l->size, sizeof l->text - l->size, form, more);
    va_end(more);
    if (n > 0 && l->size + (size_t)n < sizeof l->text) l->size += (size_t)n;
}

static void send(struct line *l) {
    put(l, "\n");
    if (file >= 0 && getpid() == owner && write(file, l->text, l->size) < 0) file = -1;
}

static struct pair {
    uint32_t place, other;
    uint8_t how; /* bits: written by both */
    const char *kind;
    uint64_t count, told;
    int id;
} pairs[4096];
static int ids;

static struct pair *pair_of(const char *kind, uint32_t a, uint32_t b, uint8_t how) {
    uint32_t h = (a * 2654435761u ^ b * 40503u ^ how) >> 8;
    for (int i = 0; i < 4096; i++) {
        struct pair *p = &pairs[(h + (uint32_t)i) % 4096];
        if (!p->id) {
            if (ids >= 2048) return NULL;
            *p = (struct pair){a, b, how, kind, 0, 0, ++ids};
            return p;
        }
        if (p->place == a && p->other == b && p->how == how && p->kind == kind) return p;
    }
    return NULL;
}

static uint64_t pc_of(uint32_t place) { return now.start + (place & ~ATOMIC); }

static const char *const MAKERS[] = {"task", "target", "copy"};
static const char *const NAMES[] = {"host", "region", "thread", "iteration", "section",
                                    "task", "",       "",       "lane",      "single"};

/* The number of the task of a target construct that a strand is of; 0: none. */
static int64_t beside(strand_t s) {
    for (; s >= weft_first; s = node(s)->parent)
        if (node(s)->kind == TASK && node(s)->loop != BY_TASK) return node(s)->index;
    return 0;
}

static void put_strand(struct line *l, const char *name, strand_t s) {
    s = trunk(s);
    const struct node *n = node(s);
    put(l, ",\"%s\":{\"what\":\"%s\",\"index\":%" PRId64 ",\"pc\":%" PRIu64 ",\"beside\":%" PRId64 "}", name,
        n->kind == TASK ? MAKERS[n->loop] : NAMES[n->kind], n->index, pc_of(n->place), beside(s));
}

extern char __start_weft_hooks, __stop_weft_hooks;

/* Hooks have no frame: what seems to have called from one is the function with the access. */
static uintptr_t called_from(uintptr_t pc, uint32_t place) {
    bool hook = pc >= (uintptr_t)&__start_weft_hooks && pc < (uintptr_t)&__stop_weft_hooks;
    return hook ? pc_of(place) : pc;
}

/* The function whose frame holds an address of a stack: its return address and canonical frame address. */
static void put_frame(struct line *l, uintptr_t a, uint32_t place) {
    const struct thread *t = owner_of_stack(a);
    if (!t) return;
    uintptr_t frame = t == me ? FRAME : t->parked_frame;
    if (!frame) return;
    uintptr_t pc = 0;
    while (frame >= t->stack_low && frame + 16 <= t->stack_high) {
        const uintptr_t *at = (const uintptr_t *)frame;
        if (frame + 16 > a) {
            if (pc) put(l, ",\"frame\":{\"pc\":%" PRIu64 ",\"cfa\":%" PRIu64 "}", (uint64_t)pc, (uint64_t)frame + 16);
            return;
        }
        pc = called_from(at[1], place);
        if (at[0] <= frame) return;
        frame = at[0];
    }
}

/* Where memory that has no name of its own lies. */
static void put_home(struct line *l, uintptr_t a, uint32_t place) {
    uintptr_t low;
    size_t size;
    int thread;
    strand_t since;
    if (block_of(a, &low, &size, &thread, &since))
        put(l, ",\"block\":{\"low\":%" PRIu64 ",\"size\":%zu}", (uint64_t)low, size);
    else put_frame(l, a, place);
}

void told_race(const struct access *a) {
    if (file < 0) return;
    uint8_t how = (uint8_t)(a->write | a->other_write << 1);
    uint32_t place = a->place & ~ATOMIC, other = a->other_place & ~ATOMIC;
    struct pair *p = pair_of("data-race", place, other, how);
    if (!p || p->count++) return;
    struct line l = {0};
    put(&l, "{\"id\":%d,\"kind\":\"data-race\",\"pc\":%" PRIu64 ",\"write\":%s,\"atomic\":%s", p->id, pc_of(place),
        a->write ? "true" : "false", a->place & ATOMIC ? "true" : "false");
    put(&l, ",\"other_pc\":%" PRIu64 ",\"other_write\":%s,\"other_atomic\":%s", pc_of(other),
        a->other_write ? "true" : "false", a->other_place & ATOMIC ? "true" : "false");
    put(&l, ",\"address\":%" PRIu64 ",\"bytes\":%zu", (uint64_t)a->address, a->size);
    put_strand(&l, "strand", a->strand);
    put_strand(&l, "other", a->other);
    put_home(&l, a->address, place);
    put(&l, "}");
    send(&l);
}

void told_copy(const struct copy *c) {
    struct pair *p = pair_of(c->kind, c->place, c->other_place, (uint8_t)(c->device | c->write << 1));
    if (!p || p->count++) return;
    struct line l = {0};
    put(&l, "{\"id\":%d,\"kind\":\"%s\",\"why\":\"%s\",\"pc\":%" PRIu64 ",\"other_pc\":%" PRIu64, p->id, c->kind,
        c->why, pc_of(c->place), c->other_place ? pc_of(c->other_place) : 0);
    put(&l, ",\"write\":%s,\"device\":%s,\"address\":%" PRIu64 ",\"bytes\":%zu,\"near\":[%" PRIu64 ",%" PRIu64 "]",
        c->write ? "true" : "false", c->device ? "true" : "false", (uint64_t)c->address, c->size, (uint64_t)c->near[0],
        (uint64_t)c->near[1]);
    if (c->region) put(&l, ",\"region_pc\":%" PRIu64, pc_of(c->region));
    put_home(&l, c->address, c->place);
    put(&l, "}");
    send(&l);
}

void told_valueless(uintptr_t a, size_t size, uint32_t place) {
    struct pair *p = pair_of("valueless", place, 0, 0);
    if (!p || p->count++) return;
    struct line l = {0};
    put(&l, "{\"id\":%d,\"kind\":\"valueless\",\"pc\":%" PRIu64 ",\"other_pc\":0,\"address\":%" PRIu64 ",\"bytes\":%zu",
        p->id, pc_of(place), (uint64_t)a, size);
    put_strand(&l, "strand", me->current);
    put_frame(&l, a, place);
    put(&l, "}");
    send(&l);
}

void told_plain(const char *kind, const char *why, uint32_t place, uint32_t other) {
    struct pair *p = pair_of(kind, place, other, 0);
    if (!p || p->count++) return;
    struct line l = {0};
    put(&l, "{\"id\":%d,\"kind\":\"%s\",\"why\":\"%s\",\"pc\":%" PRIu64 ",\"other_pc\":%" PRIu64 "}", p->id, kind, why,
        pc_of(place), other ? pc_of(other) : 0);
    send(&l);
}

static struct placed {
    uint32_t place, line;
} placed[4096];

void told_line(uint32_t place, uint32_t line) {
    if (!line) return;
    for (uint32_t i = 0; i < 4096; i++) {
        struct placed *p = &placed[(place * 2654435761u + i) % 4096];
        if (p->line && p->place != place) continue;
        *p = (struct placed){place, line};
        return;
    }
}

static struct ran {
    uint32_t place;
    const char *kind;
    uint64_t times, iterations;
} ran[4096];

void told_construct(uint32_t place, const char *kind, uint64_t iterations) {
    for (uint32_t i = 0; i < 4096; i++) {
        struct ran *r = &ran[(place * 2654435761u + i) % 4096];
        if (r->kind && (r->place != place || strcmp(r->kind, kind) != 0)) continue;
        r->place = place, r->kind = kind, r->times++, r->iterations += iterations;
        return;
    }
}

static void put_places(void) {
    struct line l = {0};
    put(&l, "{\"places\":%zu}", shadow_places());
    send(&l);
}

void told_end(void) {
    if (file < 0 || getpid() != owner) return;
    put_places();
    for (int i = 0; i < 4096; i++) {
        struct line l = {0};
        if (pairs[i].id && pairs[i].count > pairs[i].told) {
            put(&l, "{\"id\":%d,\"count\":%" PRIu64 "}", pairs[i].id, pairs[i].count);
            pairs[i].told = pairs[i].count;
            send(&l);
        }
    }
    for (int i = 0; i < 4096; i++) {
        struct line l = {0};
        if (!placed[i].line) continue;
        put(&l, "{\"place\":%" PRIu64 ",\"line\":%" PRIu32 "}", pc_of(placed[i].place), placed[i].line);
        send(&l);
    }
    for (int i = 0; i < 4096; i++) {
        struct line l = {0};
        if (!ran[i].kind) continue;
        put(&l, "{\"construct\":\"%s\",\"pc\":%" PRIu64 ",\"times\":%" PRIu64 ",\"iterations\":%" PRIu64 "}",
            ran[i].kind, pc_of(ran[i].place), ran[i].times, ran[i].iterations);
        send(&l);
    }
}

static void died(int number) {
    told_end();
    signal(number, SIG_DFL);
    raise(number);
}

/* As the launcher that started the process says; 0 where none did. */
static int rank(void) {
    static const char *const names[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return atoi(value);
    }
    return 0;
}

static int module(struct dl_phdr_info *info, size_t size, void *data) {
    struct line *l = data;
    (void)size;
    if (info->dlpi_name && *info->dlpi_name) return 0;
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    put(l, "{\"start\":%" PRIu64 ",\"base\":%" PRIu64 ",\"rank\":%d}", (uint64_t)now.start, (uint64_t)info->dlpi_addr,
        rank());
    return 1;
}

void told_open(void) {
    const char *named = getenv("WEFT_INTERNAL_CHECK_FINDINGS");
    if (!named || !*named) return;
    char path[4096];
    const char *own = strstr(named, "%p"); /* several processes, each with a file of its own */
    if (own) snprintf(path, sizeof path, "%.*s%d%s", (int)(own - named), named, (int)getpid(), own + 2);
    else snprintf(path, sizeof path, "%s", named);
    file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0) {
        fprintf(stderr, "weft: %s cannot be written, so nothing is checked\n", path);
        return;
    }
    int higher = fcntl(file, F_DUPFD_CLOEXEC, 200); /* a program that counts its descriptors sees what it would see */
    if (higher >= 0) close(file), file = higher;
    owner = getpid();
    unsetenv("WEFT_INTERNAL_CHECK_FINDINGS"); /* not for the program's children */
    struct line l = {0};
    dl_iterate_phdr(module, &l);
    send(&l);
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT, SIGHUP, SIGXCPU};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
        struct sigaction old;
        if (sigaction(fatal[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) signal(fatal[i], died);
    }
    atexit(told_end);
}
