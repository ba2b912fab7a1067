/* What was found, as JSON lines: once for each pair of places, with how often. */
#include "lines.h"
#include "openmp.h"

static struct pair {
    uint32_t place, other;
    uint8_t how; /* bits: written by both */
    const char *kind;
    uint64_t count, told;
    int id;
} pairs[4096];
static int ids;

/* Where a pair stands, or would. */
static struct pair *pair_at(const char *kind, uint32_t a, uint32_t b, uint8_t how) {
    uint32_t h = (a * 2654435761u ^ b * 40503u ^ how) >> 8;
    for (int i = 0; i < 4096; i++) {
        struct pair *p = &pairs[(h + (uint32_t)i) % 4096];
        if (!p->id || (p->place == a && p->other == b && p->how == how && p->kind == kind)) return p;
    }
    return NULL;
}

static struct pair *pair_of(const char *kind, uint32_t a, uint32_t b, uint8_t how) {
    struct pair *p = pair_at(kind, a, b, how);
    if (!p || p->id) return p;
    if (ids >= 2048) return NULL;
    *p = (struct pair){a, b, how, kind, 0, 0, ++ids};
    return p;
}

/* A pair that is seen for the first time: its line is to be told. NULL: it was told, or cannot be. */
static struct pair *first_of(const char *kind, uint32_t a, uint32_t b, uint8_t how) {
    struct pair *p = lines_file < 0 ? NULL : pair_of(kind, a, b, how);
    return p && p->count++ == 0 && lines_ours() ? p : NULL;
}

static int64_t pc_of(uint32_t place) { return (int64_t)(now.start + (place & ~ATOMIC)); }

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
    put_begin(l, name, '{');
    put_text(l, "what", n->kind == TASK ? MAKERS[n->loop] : NAMES[n->kind]);
    put_number(l, "index", n->index);
    put_number(l, "number", n->kind == ITERATION ? loops_number(n->loop, n->index) : -1);
    put_number(l, "pc", pc_of(n->place));
    put_number(l, "beside", beside(s));
    put_end(l, '}');
}

/* Two numbers under a name. */
static void put_two(struct line *l, const char *name, const char *one, uintptr_t a, const char *two, uintptr_t b) {
    put_begin(l, name, '{');
    put_number(l, one, (int64_t)a);
    put_number(l, two, (int64_t)b);
    put_end(l, '}');
}

extern char __start_weft_hooks, __stop_weft_hooks;

/* Hooks have no frame: what seems to have called from one is the function with the access. */
static uintptr_t called_from(uintptr_t pc, uint32_t place) {
    bool hook = pc >= (uintptr_t)&__start_weft_hooks && pc < (uintptr_t)&__stop_weft_hooks;
    return hook ? (uintptr_t)pc_of(place) : pc;
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
            if (pc) put_two(l, "frame", "pc", pc, "cfa", frame + 16);
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
    if (block_of(a, &low, &size, &thread, &since)) put_two(l, "block", "low", low, "size", size);
    else put_frame(l, a, place);
}

static struct line begin(const struct pair *p, const char *why) {
    struct line l = new_line();
    put_number(&l, "id", p->id);
    put_text(&l, "kind", p->kind);
    put_text(&l, "why", why);
    put_number(&l, "pc", pc_of(p->place));
    put_number(&l, "other_pc", p->other ? pc_of(p->other) : 0);
    return l;
}

static void put_memory(struct line *l, uintptr_t a, size_t size) {
    put_number(l, "address", (int64_t)a);
    put_number(l, "bytes", (int64_t)size);
}

static const char RACE[] = "data-race", RACE_IN_CHUNK[] = "chunk-race";

bool told_before(uint32_t place, uint32_t other, bool write, bool other_write) {
    const struct pair *p = pair_at(RACE, place & ~ATOMIC, other & ~ATOMIC, (uint8_t)(write | other_write << 1));
    return p && p->id;
}

void told_race(const struct access *a) {
    uint8_t how = (uint8_t)(a->write | a->other_write << 1);
    uint32_t place = a->place & ~ATOMIC, other = a->other_place & ~ATOMIC;
    const struct pair *p = first_of(a->chunk ? RACE_IN_CHUNK : RACE, place, other, how);
    if (!p) return;
    struct line l = begin(p, "");
    uint32_t caller = is_library_place(place) ? caller_of(place) : 0, other_caller = shadow_caller(other);
    put_number(&l, "caller_pc", caller ? pc_of(caller) : 0);
    put_number(&l, "other_caller_pc", other_caller ? pc_of(other_caller) : 0);
    put_truth(&l, "write", a->write);
    put_truth(&l, "other_write", a->other_write);
    put_number(&l, "chunk", a->chunk);
    put_memory(&l, a->address, a->size);
    put_strand(&l, "strand", a->strand);
    put_strand(&l, "other", a->other);
    put_home(&l, a->address, place);
    send_line(&l);
}

void told_copy(const struct copy *c) {
    const struct pair *p = first_of(c->kind, c->place, c->other_place, (uint8_t)(c->device | c->write << 1));
    if (!p) return;
    struct line l = begin(p, c->why);
    put_truth(&l, "write", c->write);
    put_truth(&l, "device", c->device);
    put_memory(&l, c->address, c->size);
    put_numbers(&l, "near", 2, (const int64_t[]){(int64_t)c->near[0], (int64_t)c->near[1]});
    if (c->region) put_number(&l, "region_pc", pc_of(c->region));
    put_home(&l, c->address, c->place);
    send_line(&l);
}

void told_valueless(uintptr_t a, size_t size, uint32_t place) {
    const struct pair *p = first_of("valueless", place, 0, 0);
    if (!p) return;
    struct line l = begin(p, "");
    put_memory(&l, a, size);
    put_strand(&l, "strand", me->current);
    put_frame(&l, a, place);
    send_line(&l);
}

void told_plain(const char *kind, const char *why, uint32_t place, uint32_t other) {
    const struct pair *p = first_of(kind, place, other, 0);
    if (!p) return;
    struct line l = begin(p, why);
    send_line(&l);
}

void told_no_memory(void) { write_usage_error("no-memory", 0, 0); }

void told_slow(uint32_t place, int times, int share) {
    struct line l = new_line();
    put_number(&l, "slow", times);
    put_number(&l, "pc", place ? pc_of(place) : 0);
    put_number(&l, "share", share);
    send_line(&l);
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
        r->place = place;
        r->kind = kind;
        r->times++;
        r->iterations += iterations;
        return;
    }
}

void told_end(void) {
    if (!lines_ours()) return;
    struct line l = new_line();
    put_number(&l, "places", (int64_t)shadow_places());
    send_line(&l);
    for (int i = 0; i < 4096; i++) {
        struct pair *p = &pairs[i];
        if (!p->id || p->count == p->told) continue;
        l = new_line();
        put_number(&l, "id", p->id);
        put_number(&l, "count", (int64_t)p->count);
        p->told = p->count;
        send_line(&l);
    }
    for (int i = 0; i < 4096; i++) {
        if (!placed[i].line) continue;
        l = new_line();
        put_number(&l, "place", pc_of(placed[i].place));
        put_number(&l, "line", placed[i].line);
        send_line(&l);
    }
    for (int i = 0; i < 4096; i++) {
        if (!ran[i].kind) continue;
        l = new_line();
        put_text(&l, "construct", ran[i].kind);
        put_number(&l, "pc", pc_of(ran[i].place));
        put_number(&l, "times", (int64_t)ran[i].times);
        put_number(&l, "iterations", (int64_t)ran[i].iterations);
        send_line(&l);
    }
}

static void died(int number, siginfo_t *why, void *context) {
    (void)why;
    (void)context;
    told_end();
    signal(number, SIG_DFL);
    raise(number);
}

bool told_open(void) {
    if (!lines_open_file()) return false;
    install_fatal_signal_handler(died, SA_RESTART);
    atexit(told_end);
    return true;
}
