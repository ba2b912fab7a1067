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

/* Append a record to the value trace: a head, then `byte_count` bytes of body. */
void weft_write_record(uint16_t thread, int kind, uint32_t place, const void *body, size_t byte_count) {
    struct weft_value_record head = {(uint8_t)kind, 0, thread, place, sizeof head + byte_count};
    if (!weft_values_begin_record(head.bytes)) return;
    weft_values_append(&head, sizeof head);
    weft_values_append(body, byte_count);
    weft_values_end_record();
}

/* Return the index in the hash table (`buckets`) of a place (a probe, loop or region of the program). */
static uint32_t hash_place(int kind, const char *name, const char *file, uint32_t line) {
    uint32_t hash = 2166136261u ^ (uint32_t)kind ^ line * 2654435761u;
    for (; *name; name++) hash = (hash ^ (uint8_t)*name) * 16777619u;
    for (; *file; file++) hash = (hash ^ (uint8_t)*file) * 16777619u;
    return hash % 4096;
}

/* Record, once for each place, why a probe could not take what the program gave it. */
void weft_report_problem(uint16_t thread, uint32_t number, const char *what) {
    struct place *place = &weft_places[number];
    if (place->complained || problems++ >= PROBLEMS) return;
    place->complained = true;
    char text[512] = "";
    snprintf(text, sizeof text - 8, "%s", what);
    weft_write_record(thread, WEFT_VALUE_PROBLEM, number, text, (strlen(text) + 8) / 8 * 8);
}

/* Find the file of the module that contains an address, and the address as the module's debug information counts it.
 * Return false if there is none. */
static bool find_module_of_address(void *address, char *path, uint64_t *offset) {
    Dl_info info;
    struct link_map *map = NULL;
    if (!dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || !map) return false;
    *offset = (uint64_t)address - map->l_addr;
    if (map->l_name[0]) return realpath(map->l_name, path);
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (n > 0) path[n] = 0;
    return n > 0;
}

/* Return a place's file for comparison with the configuration. A place given by its address, `=0x401136=main.c`, has
 * the file name after it. */
static const char *find_named_file(const char *file) {
    const char *behind = *file == '=' ? strchr(file + 1, '=') : NULL;
    return behind ? behind + 1 : file;
}

/* Write the addresses of the calling functions, for languages that give no line number: a count, then each in the form
 * of value_format.h. Return the number of bytes. */
static size_t write_callers(const char *file, char *buffer, size_t capacity) {
    void *frames[FRAMES];
    int frame_count = 1;
    if (*file == '=') frames[0] = (void *)strtoull(file + 1, NULL, 0);
    else frame_count = backtrace(frames, FRAMES);
    Dl_info own, of;
    if (!dladdr((void *)weft_find_or_add_place, &own)) frame_count = 0;
    uint64_t known = 0, offset;
    size_t used = sizeof known;
    for (int i = 0; i < frame_count; i++) {
        char path[PATH_MAX];
        if (!dladdr(frames[i], &of) || of.dli_fbase == own.dli_fbase) continue;
        if (!find_module_of_address(frames[i], path, &offset)) continue;
        size_t length = strlen(path) + 1;
        if (used + sizeof offset + length > capacity) break;
        memcpy(buffer + used, &offset, sizeof offset);
        memcpy(buffer + used + sizeof offset, path, length);
        used += sizeof offset + length;
        known++;
    }
    memcpy(buffer, &known, sizeof known);
    return used;
}

/* Append the definition of a new place (a probe, loop or region) to the trace. */
static void write_place(uint16_t thread, uint32_t number) {
    const struct place *place = &weft_places[number];
    const char *texts[] = {place->text, place->file, place->function};
    char callers_here[8192];
    size_t text_bytes = 0,
           caller_bytes = place->line ? 0 : write_callers(place->file, callers_here, sizeof callers_here);
    for (int i = 0; i < 3; i++) text_bytes += strlen(texts[i]) + 1;
    struct weft_value_place body = {.kind = (uint32_t)place->kind, .line = place->line};
    body.head = (struct weft_value_record){WEFT_VALUE_PLACE, 0, thread, number,
                                           sizeof body + (text_bytes + caller_bytes + 7) / 8 * 8};
    if (!weft_values_begin_record(body.head.bytes)) return;
    weft_values_append(&body, sizeof body);
    for (int i = 0; i < 3; i++) weft_values_append(texts[i], strlen(texts[i]) + 1);
    weft_values_append(callers_here, caller_bytes);
    weft_values_append("\0\0\0\0\0\0\0", (8 - (text_bytes + caller_bytes) % 8) % 8);
    weft_values_end_record();
}

/* Return the number of a known place (a probe, loop or region); 0 if it is new. */
static uint32_t find_place(int kind, const char *name, const char *file, uint32_t line, uint32_t bucket) {
    for (uint32_t i = buckets[bucket]; i; i = weft_places[i].next)
        if (weft_places[i].kind == kind && weft_places[i].line == line && !strcmp(weft_places[i].text, name) &&
            !strcmp(weft_places[i].file, file))
            return i;
    return 0;
}

/* Return the first place of this kind and name; 0 if there is none. Probes and iterations are counted by name, wherever
 * they stand. */
uint32_t weft_find_namesake(int kind, const char *name) {
    for (uint32_t i = 1; i <= weft_place_count; i++)
        if (weft_places[i].kind == kind && !strcmp(weft_places[i].text, name)) return i;
    return 0;
}

/* Return the number of a place (a probe, loop or region); a new one is recorded. 0 if there is no room. */
uint32_t weft_find_or_add_place(uint16_t thread, int kind, const char *name, const char *file, uint32_t line,
                                const char *function) {
    uint32_t bucket = hash_place(kind, name, file, line), known = find_place(kind, name, file, line, bucket);
    if (known || weft_place_count >= MOST_PLACES) return known;
    if (weft_place_count + 2 > place_room) {
        void *grown = realloc(weft_places, (place_room + 256) * sizeof *weft_places);
        if (!grown) return 0;
        weft_places = grown;
        place_room += 256;
    }
    struct place created = {.kind = kind, .line = line, .next = buckets[bucket]};
    created.text = strdup(name), created.file = strdup(file), created.function = strdup(function);
    if (!created.text || !created.file || !created.function) return 0;
    weft_find_rules(kind, name, find_named_file(file), function, &created.own, &created.around);
    known = weft_find_namesake(kind, name);
    weft_places[++weft_place_count] = created;
    weft_places[weft_place_count].name = known ? known : weft_place_count;
    buckets[bucket] = weft_place_count;
    write_place(thread, weft_place_count);
    return weft_place_count;
}
