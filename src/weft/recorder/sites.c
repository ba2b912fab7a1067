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
static struct weft_site_cached *site_table; /* open addressing, capacity a power of two */
static size_t site_table_capacity, site_table_used;
static uint32_t last_id;
static struct module modules[512];
static size_t module_count;

/* Return a hash of what identifies a call site. */
static size_t hash_site(uintptr_t address, uint32_t code, uint32_t offset) {
    uint64_t hash = (address ^ ((uint64_t)code << 17) ^ ((uint64_t)offset << 40)) * 0x9e3779b97f4a7c15u;
    return (size_t)(hash >> 32);
}

struct module_search {
    uintptr_t address;
    struct module *found;
    struct weft_text *text;
};

/* Callback of dl_iterate_phdr: if the module holds the address that is searched for, note it, write its definition, and
 * return 1 to end the search. */
static int visit_module_for_definition(struct dl_phdr_info *info, size_t size, void *search_data) {
    (void)size;
    struct module_search *search = search_data;
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

/* Return the module that holds an address, defined in the record when first met; NULL for code without a file (JIT).
 * Needs the lock. */
static struct module *find_or_define_module(uintptr_t address) {
    for (size_t i = 0; i < module_count; i++)
        if (address >= modules[i].start && address < modules[i].end) return &modules[i];
    if (module_count == sizeof modules / sizeof *modules) return NULL;
    uint8_t payload[PATH_MAX + 256];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    struct module *module = &modules[module_count];
    struct module_search search = {.address = address, .found = module, .text = &text};
    weft_write_unsigned(&text, module_count + 1);
    if (!dl_iterate_phdr(visit_module_for_definition, &search) || text.overflow) return NULL;
    module->id = (uint32_t)++module_count;
    weft_write_definition(WEFT_DEF_MODULE, payload, (size_t)(text.p - payload));
    return module;
}

/* Set the id of the module that holds an address, and the address's offset in it; return false where there is none. */
bool weft_find_module(uintptr_t address, uint32_t *module, uint64_t *offset) {
    if (!weft_take_lock(&lock)) return false;
    const struct module *found = find_or_define_module(address);
    if (found) {
        *module = found->id;
        *offset = address - found->base;
    }
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

/* Write an address as its module and the offset in it. */
static void write_code_address(struct weft_text *text, uintptr_t address) {
    struct module *module = find_or_define_module(address);
    weft_write_unsigned(text, module ? module->id : 0);
    weft_write_unsigned(text, module ? address - module->base : address);
}

/* Write the definition of a call site: its address, its line of Python, and its callers. */
static void record_site_definition(const struct weft_site_cached *site) {
    uint8_t payload[64 + 24 * WEFT_CALLERS];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_write_unsigned(&text, site->id);
    write_code_address(&text, site->address);
    weft_write_unsigned(&text, site->code);
    weft_write_unsigned(&text, site->offset);
    weft_write_unsigned(&text, site->callers);
    for (uint32_t k = 0; k < site->callers; k++) {
        if (!site->code) write_code_address(&text, site->returns[k]);
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

/* Callback of the unwinder: add the frame's return address, and where it lies on the stack, to the callers of a call
 * site. */
static _Unwind_Reason_Code visit_caller_frame(struct _Unwind_Context *context, void *unwinding_data) {
    struct unwinding *unwinding = unwinding_data;
    struct weft_site_cached *site = unwinding->site;
    uintptr_t address = _Unwind_GetIP(context);
    if (!unwinding->begun) {
        unwinding->begun = address == site->address;
        return _URC_NO_REASON;
    }
    /* The frame below has this return address just under its canonical frame address; else the way ends here. */
    uintptr_t slot = _Unwind_GetCFA(context) - sizeof address;
    if (slot <= site->frame || slot - site->frame >= FARTHEST || *(const uintptr_t *)slot != address)
        return _URC_END_OF_STACK;
    site->slots[site->callers] = (uint32_t)(slot - site->frame);
    site->returns[site->callers++] = address;
    return site->callers == WEFT_CALLERS ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* Find the callers of a call site by unwinding the stack; leave it without callers where that is not possible. */
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
    if (backtrace) backtrace(visit_caller_frame, &(struct unwinding){.site = site});
#else
    (void)site;
#endif
}

/* Return whether a call comes from the same callers as a known site, by the return addresses on the stack. `frame`: the
 * stack's height at the call. */
static inline bool has_same_callers(const struct weft_site_cached *site, uintptr_t frame) {
    for (uint32_t k = 0; k < site->callers; k++)
        if (*(const uintptr_t *)(frame + site->slots[k]) != site->returns[k]) return false;
    return true;
}

/* Return whether an address is on the calling thread's stack, whose bounds are asked for once. */
static bool is_on_thread_stack(struct weft_thread *thread, uintptr_t frame) {
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

/* Return whether `bytes` bytes lie in the live part of the calling thread's stack, where they can be read. */
bool weft_is_on_own_stack(const void *from, size_t bytes) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), low = (uintptr_t)from;
    return weft_self && is_on_thread_stack(weft_self, here) && low >= here && low < weft_self->stack_end &&
           bytes <= weft_self->stack_end - low;
}

/* Return a hash of what identifies a call site and the way of calls to it. */
static inline size_t hash_callers(uintptr_t address, uintptr_t frame, uint32_t code, uint32_t offset) {
    return hash_site(address ^ frame << 13, code, offset);
}

/* Double the table of call sites; return false without memory. Needs the lock. */
static bool enlarge_site_table(void) {
    size_t larger = site_table_capacity ? site_table_capacity * 2 : 1024;
    struct weft_site_cached *table = calloc(larger, sizeof *table);
    if (!table) return false;
    for (size_t i = 0; i < site_table_capacity; i++) {
        if (!site_table[i].address && !site_table[i].code) continue;
        size_t index =
            hash_callers(site_table[i].address, site_table[i].frame, site_table[i].code, site_table[i].offset) &
            (larger - 1);
        while (table[index].address || table[index].code) index = (index + 1) & (larger - 1);
        table[index] = site_table[i];
    }
    free(site_table);
    site_table = table;
    site_table_capacity = larger;
    return true;
}

/* Return the entry of a call site with its callers, or a free one where it is not known. The table has room. Needs the
 * lock. */
static struct weft_site_cached *find_site_entry(const struct weft_thread *thread,
                                                const struct weft_site_cached *wanted) {
    for (size_t index =
             hash_callers(wanted->address, wanted->frame, wanted->code, wanted->offset) & (site_table_capacity - 1);
         ; index = (index + 1) & (site_table_capacity - 1)) {
        struct weft_site_cached *entry = &site_table[index];
        if (!entry->address && !entry->code) return entry;
        if (entry->address != wanted->address || entry->frame != wanted->frame || entry->code != wanted->code ||
            entry->offset != wanted->offset)
            continue;
        if (entry->code) return entry;
        /* Another thread's stack may end lower. */
        if (entry->callers && entry->frame + entry->slots[entry->callers - 1] + sizeof(uintptr_t) > thread->stack_end)
            continue;
        if (has_same_callers(entry, wanted->frame)) return entry;
    }
}

/* Return the id of a call site by its address and callers, whatever the height of the stack (a recursion has many
 * heights); define it if it is new. 0: one of too many for this address. Needs the lock. */
static uint32_t find_or_define_id_of_callers(struct weft_thread *thread, const struct weft_site_cached *site,
                                             struct weft_site_cached *base) {
    struct weft_site_cached wanted = {.address = site->address};
    for (uint32_t k = 0; k < site->callers; k++)
        wanted.frame = (wanted.frame ^ site->returns[k]) * 0x9e3779b97f4a7c15u + 1;
    wanted.frame |= 1; /* no height of a stack */
    struct weft_site_cached *entry = find_site_entry(thread, &wanted);
    if (!entry->id) {
        if (base->ways >= WAYS) return 0;
        base->ways++;
        *entry = wanted;
        site_table_used++;
        entry->id = ++last_id;
        struct weft_site_cached defined = *site;
        defined.id = entry->id;
        record_site_definition(&defined);
    }
    return entry->id;
}

/* Return the call site of an address and its callers, which is defined if it is new; without its callers if there are
 * too many, and with id 0 without memory. */
static WEFT_COLD struct weft_site_cached find_or_define_site(struct weft_thread *thread, struct weft_site_cached wanted,
                                                             const struct weft_python_callers *callers) {
    pthread_mutex_lock(&lock);
    struct weft_site_cached without_callers = wanted, *entry;
    uint32_t id = 0;
    without_callers.frame = 0;
    if ((site_table_used + 4) * 2 >= site_table_capacity && !enlarge_site_table()) {
        pthread_mutex_unlock(&lock);
        return without_callers; /* no memory: the call without its place */
    }
    if (wanted.frame && !wanted.code && !is_on_thread_stack(thread, wanted.frame)) wanted.frame = 0;
    entry = find_site_entry(thread, &wanted);
    if (!entry->address && !entry->code && wanted.frame) { /* a new way: one of few, or the call without its callers */
        struct weft_site_cached *base = find_site_entry(thread, &without_callers);
        if (!base->address && !base->code) {
            *base = without_callers;
            site_table_used++;
        }
        bool many = base->ways >= WAYS || base->heights >= HEIGHTS;
        if (many) wanted = without_callers;
        else if (wanted.code) {
            base->ways++;
            for (wanted.callers = 0; wanted.callers < callers->n; wanted.callers++) {
                wanted.slots[wanted.callers] = callers->code[wanted.callers];
                wanted.returns[wanted.callers] = callers->offset[wanted.callers];
            }
        } else {
            base->heights++;
            find_callers(&wanted);
            id = find_or_define_id_of_callers(thread, &wanted, base);
            if (!id) wanted = without_callers;
            else if (wanted.callers && base->heights <= HEIGHTS_TOLD) {
                struct weft_site_cached recorded = wanted;
                recorded.id = id;
                weft_record_caller_frames(&recorded);
            }
        }
        entry = find_site_entry(thread, &wanted);
    }
    if (!entry->id) {
        if (!entry->address && !entry->code) {
            *entry = wanted;
            site_table_used++;
        }
        entry->id = id ? id : ++last_id;
        if (!id) record_site_definition(entry);
        weft_look_up_buffers_at_next_call(thread);
    }
    wanted = *entry;
    pthread_mutex_unlock(&lock);
    return wanted;
}

/* Return the id of a call site that the thread's cache does not have, and put it there. */
static WEFT_COLD uint32_t find_and_cache_site(struct weft_thread *thread, struct weft_site_cached *cached,
                                              uintptr_t address, uintptr_t frame, uint32_t code, uint32_t offset,
                                              const struct weft_python_callers *callers) {
    WEFT_WORK(WEFT_LINES);
    *cached = find_or_define_site(
        thread, (struct weft_site_cached){.address = address, .frame = frame, .code = code, .offset = offset}, callers);
    /* One of too many ways is recorded without its callers; Python's are in the hash. */
    if (cached->frame != frame || code) cached->callers = 0;
    cached->frame = frame;
    return cached->id;
}

/* Find the line of Python as weft_find_python_line, marked as work of that part of the recorder. */
static uint32_t find_python_line_at_work(uint32_t *offset, struct weft_python_callers *callers) {
    WEFT_WORK(WEFT_LINES);
    return weft_find_python_line(offset, callers);
}

/* Return the id of the call site of a wrapper's caller, by the return address and the callers on the stack; in Python
 * by the line and its callers. */
uint32_t weft_find_call_site(struct weft_thread *thread, void *return_address) {
    uintptr_t address = (uintptr_t)return_address, frame = (uintptr_t)__builtin_frame_address(0);
    uint32_t code = 0, offset = 0;
    if (UNLIKELY(weft_fortran_site != NULL)) {
        /* A binding may make calls of its own before the one that it is for: a datatype for a strided buffer. */
        bool is_own_call = weft_is_in_fortran_binding(return_address);
        if (is_own_call || address - weft_library_start < weft_library_end - weft_library_start)
            address = (uintptr_t)weft_fortran_site;
        if (!is_own_call) weft_fortran_site = NULL;
    }
    struct weft_python_callers callers;
    if (weft_python && (code = find_python_line_at_work(&offset, &callers))) {
        frame = 0; /* the interpreter's own frames tell nothing */
        for (uint32_t k = 0; k < callers.n; k++)
            frame = (frame ^ ((uint64_t)callers.code[k] << 32 | callers.offset[k])) * 0x9e3779b97f4a7c15u + 1;
    }
    struct weft_site_cached *cached = &thread->sites[hash_callers(address, frame, code, offset) % WEFT_SITES_CACHED];
    if (LIKELY(cached->address == address && cached->frame == frame && cached->code == code &&
               cached->offset == offset && cached->id && has_same_callers(cached, frame)))
        return cached->id;
    return find_and_cache_site(thread, cached, address, frame, code, offset, &callers);
}

/* Return the id of a place in the code, without the calls that lead there; 0 without memory. */
uint32_t weft_find_code_site(uintptr_t address) {
    const struct weft_site_cached wanted = {.address = address};
    uint32_t id = 0;
    pthread_mutex_lock(&lock);
    if ((site_table_used + 4) * 2 < site_table_capacity || enlarge_site_table()) {
        struct weft_site_cached *entry = find_site_entry(NULL, &wanted);
        if (!entry->address) {
            *entry = wanted;
            site_table_used++;
        }
        if (!entry->id) {
            entry->id = ++last_id;
            record_site_definition(entry);
        }
        id = entry->id;
    }
    pthread_mutex_unlock(&lock);
    return id;
}

/* Forget the call sites that the thread's state has cached, as another thread has it now, with another stack. */
void weft_clear_site_cache(struct weft_thread *thread) {
    memset(thread->sites, 0, sizeof thread->sites);
    thread->stack_start = thread->stack_end = 0;
}

/* Unlock the table of call sites in a child of fork(). */
void weft_reset_site_lock(void) { pthread_mutex_init(&lock, NULL); }
