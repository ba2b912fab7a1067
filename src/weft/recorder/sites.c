/* Where a call was made: ids for (return address, its callers, Python code, instruction), defined when first seen.
 *
 * Nothing is resolved here: addresses become file and line after the run (weft.trace.sites).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#include "endings.h"

struct module {
    uintptr_t base, start, end;
    uint32_t id;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct weft_site_cached *known; /* open addressing, capacity a power of two */
static size_t capacity, used;
static uint32_t last_id;
static struct module modules[512];
static size_t module_count;

static size_t hash_site(uintptr_t address, uint32_t code, uint32_t offset) {
    uint64_t h = (address ^ ((uint64_t)code << 17) ^ ((uint64_t)offset << 40)) * 0x9e3779b97f4a7c15u;
    return (size_t)(h >> 32);
}

struct module_search {
    uintptr_t address;
    struct module *found;
    struct weft_text *text;
};

/* Visits a loaded module: is it the one that holds an address? Then it is defined in the record. */
static int module_visit(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct module_search *search = data;
    uintptr_t start = UINTPTR_MAX, end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD) continue;
        uintptr_t from = info->dlpi_addr + segment->p_vaddr, to = from + segment->p_memsz;
        if (from < start) start = from;
        if (to > end) end = to;
    }
    if (search->address < start || search->address >= end) return 0;
    *search->found = (struct module){.base = info->dlpi_addr, .start = start, .end = end};
    char build_id[2 * 64 + 1] = "";
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_NOTE) continue;
        const uint8_t *at = (const uint8_t *)(info->dlpi_addr + segment->p_vaddr), *stop = at + segment->p_memsz;
        while (at + sizeof(ElfW(Nhdr)) <= stop) {
            const ElfW(Nhdr) *note = (const void *)at;
            const uint8_t *name = at + sizeof *note, *description = name + ((note->n_namesz + 3u) & ~3u);
            at = description + ((note->n_descsz + 3u) & ~3u);
            if (note->n_type != NT_GNU_BUILD_ID || note->n_descsz > 64 || description + note->n_descsz > stop) continue;
            for (uint32_t k = 0; k < note->n_descsz; k++) sprintf(build_id + 2 * k, "%02x", description[k]);
        }
    }
    char executable[PATH_MAX] = "";
    const char *path = info->dlpi_name;
    if (!path || !*path) { /* the program itself has no name here */
        ssize_t n = readlink("/proc/self/exe", executable, sizeof executable - 1);
        executable[n > 0 ? n : 0] = 0;
        path = executable;
    }
    weft_write_unsigned(search->text, start - info->dlpi_addr <= end ? info->dlpi_addr : start);
    weft_write_unsigned(search->text, end);
    weft_write_bytes(search->text, build_id, strlen(build_id));
    weft_write_bytes(search->text, path, strlen(path));
    return 1;
}

/* The module that holds `address`, defined when first met; NULL for code without a file (JIT). */
static struct module *module_of(uintptr_t address) {
    for (size_t i = 0; i < module_count; i++)
        if (address >= modules[i].start && address < modules[i].end) return &modules[i];
    if (module_count == sizeof modules / sizeof *modules) return NULL;
    uint8_t payload[PATH_MAX + 256];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    struct module *module = &modules[module_count];
    struct module_search search = {.address = address, .found = module, .text = &text};
    weft_write_unsigned(&text, module_count + 1);
    if (!dl_iterate_phdr(module_visit, &search) || text.overflow) return NULL;
    module->id = (uint32_t)++module_count;
    weft_write_definition(WEFT_DEF_MODULE, payload, (size_t)(text.p - payload));
    return module;
}

/* The module of an address and the offset in it, where there is one. */
bool weft_find_module(uintptr_t address, uint32_t *module, uint64_t *offset) {
    if (!weft_take_lock(&lock)) return false;
    const struct module *found = module_of(address);
    if (found) {
        *module = found->id;
        *offset = address - found->base;
    }
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

/* Writes an address as its module and the offset in it. */
static void text_place(struct weft_text *text, uintptr_t address) {
    struct module *module = module_of(address);
    weft_write_unsigned(text, module ? module->id : 0);
    weft_write_unsigned(text, module ? address - module->base : address);
}

/* Writes the definition of a call site: its address, its line of Python, and its callers. */
static void site_define(const struct weft_site_cached *site) {
    uint8_t payload[64 + 24 * WEFT_CALLERS];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_write_unsigned(&text, site->id);
    text_place(&text, site->address);
    weft_write_unsigned(&text, site->code);
    weft_write_unsigned(&text, site->offset);
    weft_write_unsigned(&text, site->callers);
    for (uint32_t k = 0; k < site->callers; k++) {
        if (!site->code) text_place(&text, site->returns[k]);
        else {
            weft_write_unsigned(&text, site->slots[k]);
            weft_write_unsigned(&text, site->returns[k]);
        }
    }
    weft_write_definition(WEFT_DEF_SITE, payload, (size_t)(text.p - payload));
}

/* ---- the way to a call ----
 *
 * Programs wrap MPI, so that the line of a call says little without its callers. The stack is unwound once for each way
 * to a call. From then on the way is known by the height of the stack and by the return addresses that lie where the
 * unwinding found them: a few loads, no unwinding. */
enum { WAYS = 256, HEIGHTS = 4096, HEIGHTS_TOLD = 64, FARTHEST = 1 << 20 };

struct unwinding {
    struct weft_site_cached *site;
    bool begun;
};

/* Visits a frame of the stack: collects the callers of a call site. */
static _Unwind_Reason_Code caller_visit(struct _Unwind_Context *context, void *data) {
    struct unwinding *u = data;
    struct weft_site_cached *site = u->site;
    uintptr_t at = _Unwind_GetIP(context);
    if (!u->begun) {
        u->begun = at == site->address;
        return _URC_NO_REASON;
    }
    /* The frame below has this return address just under its canonical frame address; else the way ends here. */
    uintptr_t slot = _Unwind_GetCFA(context) - sizeof at;
    if (slot <= site->frame || slot - site->frame >= FARTHEST || *(const uintptr_t *)slot != at)
        return _URC_END_OF_STACK;
    site->slots[site->callers] = (uint32_t)(slot - site->frame);
    site->returns[site->callers++] = at;
    return site->callers == WEFT_CALLERS ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* Finds the callers of a call site by unwinding the stack. */
static void find_callers(struct weft_site_cached *site) {
    if (weft_is_left_out(WEFT_LINES)) return;
#ifdef __x86_64__
    static _Unwind_Reason_Code (*backtrace)(_Unwind_Trace_Fn, void *);
    static bool asked;
    if (!asked) {
        void *library = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_LOCAL);
        backtrace = library ? (__typeof__(backtrace))dlsym(library, "_Unwind_Backtrace") : NULL;
        asked = true;
    }
    if (backtrace) backtrace(caller_visit, &(struct unwinding){.site = site});
#else
    (void)site;
#endif
}

/* Returns whether a call comes from the same callers as a known site, by the return addresses on the stack. */
static inline bool same_way(const struct weft_site_cached *site, uintptr_t frame) {
    for (uint32_t k = 0; k < site->callers; k++)
        if (*(const uintptr_t *)(frame + site->slots[k]) != site->returns[k]) return false;
    return true;
}

/* Returns whether an address is on the calling thread's stack. */
static bool on_stack(struct weft_thread *thread, uintptr_t frame) {
    if (!thread->stack_end) {
        pthread_attr_t attributes;
        void *start = NULL;
        size_t size = 0;
        thread->stack_end = 1;
        if (!pthread_getattr_np(pthread_self(), &attributes)) {
            if (!pthread_attr_getstack(&attributes, &start, &size)) {
                thread->stack_start = (uintptr_t)start;
                thread->stack_end = (uintptr_t)start + size;
            }
            pthread_attr_destroy(&attributes);
        }
    }
    return frame >= thread->stack_start && frame < thread->stack_end;
}

/* Returns whether `bytes` bytes lie on the calling thread's stack, where they can be read. */
bool weft_is_on_own_stack(const void *from, size_t bytes) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), low = (uintptr_t)from;
    return weft_self && on_stack(weft_self, here) && low >= here && low < weft_self->stack_end &&
           bytes <= weft_self->stack_end - low;
}

static inline size_t hash_way(uintptr_t address, uintptr_t frame, uint32_t code, uint32_t offset) {
    return hash_site(address ^ frame << 13, code, offset);
}

/* Doubles the table of call sites; false without memory. */
static bool table_grow(void) {
    size_t larger = capacity ? capacity * 2 : 1024;
    struct weft_site_cached *table = calloc(larger, sizeof *table);
    if (!table) return false;
    for (size_t i = 0; i < capacity; i++) {
        if (!known[i].address && !known[i].code) continue;
        size_t at = hash_way(known[i].address, known[i].frame, known[i].code, known[i].offset) & (larger - 1);
        while (table[at].address || table[at].code) at = (at + 1) & (larger - 1);
        table[at] = known[i];
    }
    free(known);
    known = table;
    capacity = larger;
    return true;
}

/* The entry of a way, or a free one where it is not known. The table has room. */
static struct weft_site_cached *way(const struct weft_thread *thread, const struct weft_site_cached *asked) {
    for (size_t at = hash_way(asked->address, asked->frame, asked->code, asked->offset) & (capacity - 1);;
         at = (at + 1) & (capacity - 1)) {
        struct weft_site_cached *e = &known[at];
        if (!e->address && !e->code) return e;
        if (e->address != asked->address || e->frame != asked->frame || e->code != asked->code ||
            e->offset != asked->offset)
            continue;
        if (e->code) return e;
        /* Another thread's stack may end lower. */
        if (e->callers && e->frame + e->slots[e->callers - 1] + sizeof(uintptr_t) > thread->stack_end) continue;
        if (same_way(e, asked->frame)) return e;
    }
}

/* Ways with the same callers are one site, whatever lies above: a recursion has many heights. 0: one of too many. */
static uint32_t id_of_callers(struct weft_thread *thread, const struct weft_site_cached *site,
                              struct weft_site_cached *base) {
    struct weft_site_cached same = {.address = site->address};
    for (uint32_t k = 0; k < site->callers; k++) same.frame = (same.frame ^ site->returns[k]) * 0x9e3779b97f4a7c15u + 1;
    same.frame |= 1; /* no height of a stack */
    struct weft_site_cached *e = way(thread, &same);
    if (!e->id) {
        if (base->ways >= WAYS) return 0;
        base->ways++;
        *e = same;
        used++;
        e->id = ++last_id;
        struct weft_site_cached told = *site;
        told.id = e->id;
        site_define(&told);
    }
    return e->id;
}

/* Returns the call site of an address and its callers, which is defined if it is new. */
static WEFT_COLD struct weft_site_cached site_slow(struct weft_thread *thread, struct weft_site_cached asked,
                                                   const struct weft_python_callers *callers) {
    pthread_mutex_lock(&lock);
    struct weft_site_cached whole = asked, *e;
    uint32_t id = 0;
    whole.frame = 0;
    if ((used + 4) * 2 >= capacity && !table_grow()) {
        pthread_mutex_unlock(&lock);
        return whole; /* no memory: the call without its place */
    }
    if (asked.frame && !asked.code && !on_stack(thread, asked.frame)) asked.frame = 0;
    e = way(thread, &asked);
    if (!e->address && !e->code && asked.frame) { /* a new way: one of few, or the call without its callers */
        struct weft_site_cached *base = way(thread, &whole);
        if (!base->address && !base->code) {
            *base = whole;
            used++;
        }
        bool many = base->ways >= WAYS || base->heights >= HEIGHTS;
        if (many) asked = whole;
        else if (asked.code) {
            base->ways++;
            for (asked.callers = 0; asked.callers < callers->n; asked.callers++) {
                asked.slots[asked.callers] = callers->code[asked.callers];
                asked.returns[asked.callers] = callers->offset[asked.callers];
            }
        } else {
            base->heights++;
            find_callers(&asked);
            id = id_of_callers(thread, &asked, base);
            if (!id) asked = whole;
            else if (asked.callers && base->heights <= HEIGHTS_TOLD) {
                struct weft_site_cached told = asked;
                told.id = id;
                weft_record_caller_frames(&told);
            }
        }
        e = way(thread, &asked);
    }
    if (!e->id) {
        if (!e->address && !e->code) {
            *e = asked;
            used++;
        }
        e->id = id ? id : ++last_id;
        if (!id) site_define(e);
        weft_look_up_buffers_at_next_call(thread);
    }
    asked = *e;
    pthread_mutex_unlock(&lock);
    return asked;
}

/* Returns the id of a call site that the thread's cache does not have, and puts it there. */
static WEFT_COLD uint32_t site_cache(struct weft_thread *thread, struct weft_site_cached *cached, uintptr_t address,
                                     uintptr_t frame, uint32_t code, uint32_t offset,
                                     const struct weft_python_callers *callers) {
    WEFT_WORK(WEFT_LINES);
    *cached = site_slow(
        thread, (struct weft_site_cached){.address = address, .frame = frame, .code = code, .offset = offset}, callers);
    /* One of too many ways is told without its callers; Python's are in the hash. */
    if (cached->frame != frame || code) cached->callers = 0;
    cached->frame = frame;
    return cached->id;
}

static uint32_t python_frame(uint32_t *offset, struct weft_python_callers *callers) {
    WEFT_WORK(WEFT_LINES);
    return weft_find_python_line(offset, callers);
}

/* Returns the id of the call site of a wrapper's caller. */
uint32_t weft_find_call_site(struct weft_thread *thread, void *return_address) {
    uintptr_t address = (uintptr_t)return_address, frame = (uintptr_t)__builtin_frame_address(0);
    uint32_t code = 0, offset = 0;
    if (UNLIKELY(weft_fortran_site != NULL)) {
        /* A binding may make calls of its own before the one that it is for: a datatype for a strided buffer. */
        bool own = weft_is_in_fortran_binding(return_address);
        if (own || address - weft_library_start < weft_library_end - weft_library_start)
            address = (uintptr_t)weft_fortran_site;
        if (!own) weft_fortran_site = NULL;
    }
    struct weft_python_callers callers;
    if (weft_python && (code = python_frame(&offset, &callers))) {
        frame = 0; /* the interpreter's own frames tell nothing */
        for (uint32_t k = 0; k < callers.n; k++)
            frame = (frame ^ ((uint64_t)callers.code[k] << 32 | callers.offset[k])) * 0x9e3779b97f4a7c15u + 1;
    }
    struct weft_site_cached *cached = &thread->sites[hash_way(address, frame, code, offset) % WEFT_SITES_CACHED];
    if (LIKELY(cached->address == address && cached->frame == frame && cached->code == code &&
               cached->offset == offset && cached->id && same_way(cached, frame)))
        return cached->id;
    return site_cache(thread, cached, address, frame, code, offset, &callers);
}

/* A place in the code, without the way there. */
uint32_t weft_find_code_site(uintptr_t address) {
    const struct weft_site_cached asked = {.address = address};
    uint32_t id = 0;
    pthread_mutex_lock(&lock);
    if ((used + 4) * 2 < capacity || table_grow()) {
        struct weft_site_cached *e = way(NULL, &asked);
        if (!e->address) {
            *e = asked;
            used++;
        }
        if (!e->id) {
            e->id = ++last_id;
            site_define(e);
        }
        id = e->id;
    }
    pthread_mutex_unlock(&lock);
    return id;
}

void weft_clear_site_cache(struct weft_thread *thread) {
    memset(thread->sites, 0, sizeof thread->sites);
    thread->stack_start = thread->stack_end = 0;
}

void weft_reset_site_lock(void) { pthread_mutex_init(&lock, NULL); }
