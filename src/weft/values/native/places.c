/* The places of a program that probe, each written down before it is first used. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "capture.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "writer.h"

enum { FRAMES = 12, PROBLEMS = 100, MOST_PLACES = 1 << 20 };

struct place *weft_places;
uint32_t weft_place_count;

static uint32_t place_room, buckets[4096], problems;

void weft_record(uint16_t thread, int kind, uint32_t place, const void *body, size_t n) {
    struct weft_value_record head = {(uint8_t)kind, 0, thread, place, sizeof head + n};
    if (!weft_values_room(head.bytes)) return;
    weft_values_put(&head, sizeof head);
    weft_values_put(body, n);
    weft_values_whole();
}

static uint32_t bucket_of(int kind, const char *name, const char *file, uint32_t line) {
    uint32_t h = 2166136261u ^ (uint32_t)kind ^ line * 2654435761u;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
    for (; *file; file++) h = (h ^ (uint8_t)*file) * 16777619u;
    return h % 4096;
}

/* What the program did that a probe could not take; told once for each place. */
void weft_complain(uint16_t thread, uint32_t number, const char *what) {
    struct place *place = &weft_places[number];
    if (place->complained || problems++ >= PROBLEMS) return;
    place->complained = true;
    char text[512] = "";
    snprintf(text, sizeof text - 8, "%s", what);
    weft_record(thread, WEFT_VALUE_PROBLEM, number, text, (strlen(text) + 8) / 8 * 8);
}

/* The file of a module and the address in it, as debugging information counts. */
static bool module_of(void *address, char *path, uint64_t *offset) {
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || !map) return false;
    *offset = (uint64_t)address - map->l_addr;
    if (map->l_name[0]) return realpath(map->l_name, path);
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (n > 0) path[n] = 0;
    return n > 0;
}

/* A place that is told by its address, `=0x401136=main.c`: what configurations know is the file behind it. */
static const char *told_file(const char *file) {
    const char *behind = *file == '=' ? strchr(file + 1, '=') : NULL;
    return behind ? behind + 1 : file;
}

/* The places of the callers, for languages that do not say their line: their number, then each as value_format.h says. */
static size_t callers(const char *file, char *to, size_t room) {
    void *frames[FRAMES];
    int n = 1;
    if (*file == '=') frames[0] = (void *)strtoull(file + 1, NULL, 0);
    else n = backtrace(frames, FRAMES);
    Dl_info own, of;
    if (!dladdr((void *)weft_place_at, &own)) n = 0;
    uint64_t known = 0, offset;
    size_t used = sizeof known;
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];
        if (!dladdr(frames[i], &of) || of.dli_fbase == own.dli_fbase) continue;
        if (!module_of(frames[i], path, &offset)) continue;
        size_t length = strlen(path) + 1;
        if (used + sizeof offset + length > room) break;
        memcpy(to + used, &offset, sizeof offset);
        memcpy(to + used + sizeof offset, path, length);
        used += sizeof offset + length;
        known++;
    }
    memcpy(to, &known, sizeof known);
    return used;
}

static void record_place(uint16_t thread, uint32_t number) {
    const struct place *place = &weft_places[number];
    const char *texts[] = {place->text, place->file, place->function};
    char callers_here[8192];
    size_t n = 0, more = place->line ? 0 : callers(place->file, callers_here, sizeof callers_here);
    for (int i = 0; i < 3; i++) n += strlen(texts[i]) + 1;
    struct weft_value_place body = {.kind = (uint32_t)place->kind, .line = place->line};
    body.head = (struct weft_value_record){WEFT_VALUE_PLACE, 0, thread, number, sizeof body + (n + more + 7) / 8 * 8};
    if (!weft_values_room(body.head.bytes)) return;
    weft_values_put(&body, sizeof body);
    for (int i = 0; i < 3; i++) weft_values_put(texts[i], strlen(texts[i]) + 1);
    weft_values_put(callers_here, more);
    weft_values_put("\0\0\0\0\0\0\0", (8 - (n + more) % 8) % 8);
    weft_values_whole();
}

static uint32_t find(int kind, const char *name, const char *file, uint32_t line, uint32_t bucket) {
    for (uint32_t i = buckets[bucket]; i; i = weft_places[i].next)
        if (weft_places[i].kind == kind && weft_places[i].line == line && !strcmp(weft_places[i].text, name) &&
            !strcmp(weft_places[i].file, file))
            return i;
    return 0;
}

/* The first place of this kind and name: iterations and probes are counted by it, wherever they stand. */
uint32_t weft_namesake(int kind, const char *name) {
    for (uint32_t i = 1; i <= weft_place_count; i++)
        if (weft_places[i].kind == kind && !strcmp(weft_places[i].text, name)) return i;
    return 0;
}

uint32_t weft_place_at(uint16_t thread, int kind, const char *name, const char *file, uint32_t line,
                       const char *function) {
    uint32_t bucket = bucket_of(kind, name, file, line), known = find(kind, name, file, line, bucket);
    if (known || weft_place_count >= MOST_PLACES) return known;
    if (weft_place_count + 2 > place_room) {
        void *more = realloc(weft_places, (place_room + 256) * sizeof *weft_places);
        if (!more) return 0;
        weft_places = more;
        place_room += 256;
    }
    struct place made = {.kind = kind, .line = line, .next = buckets[bucket]};
    made.text = strdup(name), made.file = strdup(file), made.function = strdup(function);
    if (!made.text || !made.file || !made.function) return 0;
    weft_rules_for(kind, name, told_file(file), function, &made.own, &made.around);
    known = weft_namesake(kind, name);
    weft_places[++weft_place_count] = made;
    weft_places[weft_place_count].name = known ? known : weft_place_count;
    buckets[bucket] = weft_place_count;
    record_place(thread, weft_place_count);
    return weft_place_count;
}
