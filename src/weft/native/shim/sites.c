/* Where a call was made: ids for (return address, Python code, instruction), defined when first seen.
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
#include <unistd.h>

#include "shim.h"

struct module { uintptr_t base, start, end; uint32_t id; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct weft_site_cached *known; /* open addressing, capacity a power of two */
static size_t capacity, used;
static struct module modules[512];
static size_t module_count;

static size_t hash_site(uintptr_t address, uint32_t code, uint32_t offset) {
    uint64_t h = (address ^ ((uint64_t)code << 17) ^ ((uint64_t)offset << 40)) * 0x9e3779b97f4a7c15u;
    return (size_t)(h >> 32);
}

struct module_search { uintptr_t address; struct module *found; struct weft_text *text; };

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
    weft_text_u(search->text, start - info->dlpi_addr <= end ? info->dlpi_addr : start);
    weft_text_u(search->text, end);
    weft_text_s(search->text, build_id, strlen(build_id));
    weft_text_s(search->text, path, strlen(path));
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
    weft_text_u(&text, module_count + 1);
    if (!dl_iterate_phdr(module_visit, &search) || text.overflow) return NULL;
    module->id = (uint32_t)++module_count;
    weft_define(WEFT_DEF_MODULE, payload, (size_t)(text.p - payload));
    return module;
}

static uint32_t site_define(uintptr_t address, uint32_t code, uint32_t offset) {
    uint32_t id = (uint32_t)used + 1;
    struct module *module = module_of(address);
    uint8_t payload[64];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_text_u(&text, id);
    weft_text_u(&text, module ? module->id : 0);
    weft_text_u(&text, module ? address - module->base : address);
    weft_text_u(&text, code);
    weft_text_u(&text, offset);
    weft_define(WEFT_DEF_SITE, payload, (size_t)(text.p - payload));
    return id;
}

static bool table_grow(void) {
    size_t larger = capacity ? capacity * 2 : 1024;
    struct weft_site_cached *table = calloc(larger, sizeof *table);
    if (!table) return false;
    for (size_t i = 0; i < capacity; i++) {
        if (!known[i].id) continue;
        size_t at = hash_site(known[i].address, known[i].code, known[i].offset) & (larger - 1);
        while (table[at].id) at = (at + 1) & (larger - 1);
        table[at] = known[i];
    }
    free(known);
    known = table;
    capacity = larger;
    return true;
}

static WEFT_COLD uint32_t site_slow(uintptr_t address, uint32_t code, uint32_t offset) {
    pthread_mutex_lock(&lock);
    uint32_t id = 0;
    if (used * 2 < capacity || table_grow()) {
        size_t at = hash_site(address, code, offset) & (capacity - 1);
        while (known[at].id && (known[at].address != address || known[at].code != code || known[at].offset != offset))
            at = (at + 1) & (capacity - 1);
        if (!known[at].id) {
            id = site_define(address, code, offset);
            known[at] = (struct weft_site_cached){.address = address, .code = code, .offset = offset, .id = id};
            used++;
        }
        id = known[at].id;
    }
    pthread_mutex_unlock(&lock);
    return id;
}

uint32_t weft_site(struct weft_thread *thread, void *return_address) {
    uintptr_t address = (uintptr_t)return_address;
    uint32_t code = 0, offset = 0;
    if (UNLIKELY(weft_fortran_site != NULL)) {
        if (weft_in_fortran(return_address) || address - weft_library_start < weft_library_end - weft_library_start)
            address = (uintptr_t)weft_fortran_site;
        weft_fortran_site = NULL;
    }
    if (weft_python) code = weft_python_frame(&offset);
    struct weft_site_cached *cached = &thread->sites[hash_site(address, code, offset) % WEFT_SITES_CACHED];
    if (LIKELY(cached->address == address && cached->code == code && cached->offset == offset && cached->id))
        return cached->id;
    uint32_t id = site_slow(address, code, offset);
    *cached = (struct weft_site_cached){.address = address, .code = code, .offset = offset, .id = id};
    return id;
}

void weft_sites_reset(void) { pthread_mutex_init(&lock, NULL); }
