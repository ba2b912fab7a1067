/* What was looked at: the directives and loops that ran, how often, in the order of their first time.
 *
 *   {"ran":3,"times":1}                        when a construct first runs
 *   {"ran":3,"times":400,"iterations":64000}   at the end
 *   {"places":57}                              at the end: places of the program whose accesses were looked at
 *
 * A program that leaves by _exit has reported at least what ran. weft.dataparallel.check_coverage reads the lines.
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

/* Return the counters of how often a construct ran and how many iterations it had; NULL for one without an id. */
static struct ran *find_run_counts(int construct_id) {
    if (construct_id < 1) return NULL;
    GROW_TO(all, (size_t)construct_id, room);
    return &all[construct_id];
}

static void write_run_counts(int construct_id, struct ran *counts) {
    counts->told = counts->times;
    write_line_of_run_counts(construct_id, counts->times, counts->iterations);
}

/* Count a run of a directive or loop, and write a line when it runs first, for programs that leave by _exit. */
void count_run(int construct_id) {
    struct ran *counts = now.off ? NULL : find_run_counts(construct_id);
    if (counts && counts->times++ == 0) write_run_counts(construct_id, counts);
}

void ran_iterations(int construct_id, uint64_t count) {
    struct ran *counts = find_run_counts(construct_id);
    if (counts) counts->iterations += count;
}

/* Return the table slot of a place of the program: the one that holds it, else the free one for it. */
static uintptr_t *find_place_slot(uintptr_t pc) {
    unsigned at = (unsigned)((pc >> 2) * 2654435761u) % place_room;
    while (places[at] && places[at] != pc) at = (at + 1) % place_room;
    return &places[at];
}

/* Double the table of places and enter all that it held. */
static void grow_place_table(void) {
    uintptr_t *old = places;
    unsigned count = place_room;
    place_room = count ? 2 * count : 256;
    places = calloc(place_room, sizeof *places);
    if (!places) abort();
    for (unsigned i = 0; i < count; i++)
        if (old[i]) *find_place_slot(old[i]) = old[i];
    free(old);
}

/* Note that accesses at a place of the program were examined; each place counts once. */
void count_examined_place(uintptr_t pc) {
    if (2 * place_count >= place_room && place_room < MOST_PLACES) grow_place_table();
    uintptr_t *slot = find_place_slot(pc);
    if (!*slot && place_count < MOST_PLACES - 1) {
        *slot = pc;
        place_count++;
    }
}

/* Write the final counts of all constructs and how many places were examined. */
void write_final_counts(void) {
    for (size_t k = 1; k < room; k++)
        if (all[k].told != all[k].times || all[k].iterations) write_run_counts((int)k, &all[k]);
    write_line_of_place_count(place_count);
}
