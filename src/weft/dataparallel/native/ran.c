/* What was looked at: the directives and loops that ran, how often, in the order of their first time.
 *
 *   {"ran":3,"times":1}                        when a construct first runs
 *   {"ran":3,"times":400,"iterations":64000}   at the end
 *   {"places":57}                              at the end: places of the program whose accesses were looked at
 *
 * A program that leaves by _exit has told at least what ran. weft.dataparallel.check_coverage reads the lines.
 */
#include "growing.h"
#include "ran.h"

#include "access.h"
#include "findings.h"

#include <stdlib.h>
#include <string.h>

static struct ran {
    uint64_t times, iterations, told;
} *all;
static size_t room;

/* The places that were opened: a table with a key in each slot, which doubles where half is taken. With the most slots
 * it counts no further than it has room. */
#define MOST_PLACES 65536
static uintptr_t *places;
static unsigned place_room, place_count;

static struct ran *of(int construct) {
    if (construct < 1) return NULL;
    GROW_TO(all, (size_t)construct, room);
    return &all[construct];
}

static void told(int construct, struct ran *r) {
    r->told = r->times;
    findings_ran(construct, r->times, r->iterations);
}

void ran(int construct) {
    struct ran *r = now.off ? NULL : of(construct);
    if (r && r->times++ == 0) told(construct, r);
}

void ran_iterations(int construct, uint64_t count) {
    struct ran *r = of(construct);
    if (r) r->iterations += count;
}

static uintptr_t *slot_of(uintptr_t place) {
    unsigned at = (unsigned)((place >> 2) * 2654435761u) % place_room;
    while (places[at] && places[at] != place) at = (at + 1) % place_room;
    return &places[at];
}

static void more_places(void) {
    uintptr_t *old = places;
    unsigned count = place_room;
    place_room = count ? 2 * count : 256;
    places = calloc(place_room, sizeof *places);
    if (!places) abort();
    for (unsigned i = 0; i < count; i++)
        if (old[i]) *slot_of(old[i]) = old[i];
    free(old);
}

void ran_place(uintptr_t place) {
    if (2 * place_count >= place_room && place_room < MOST_PLACES) more_places();
    uintptr_t *slot = slot_of(place);
    if (!*slot && place_count < MOST_PLACES - 1) {
        *slot = place;
        place_count++;
    }
}

void ran_end(void) {
    for (size_t k = 1; k < room; k++)
        if (all[k].told != all[k].times || all[k].iterations) told((int)k, &all[k]);
    findings_places(place_count);
}
