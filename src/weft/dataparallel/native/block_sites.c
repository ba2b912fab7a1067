/* With a grid: the sites of a block are kept while iterations are in another one, and go along with the rows.
 *
 * A site's interval is the part of a row of its array that lies in one block. It holds as long as the iterations are in
 * their blocks. The next row's part mostly lies where this one moves with the iteration's own element: the site goes
 * there if all rows between `lowest` and `highest` are alike to the block. Rows of iterations come to the same blocks
 * again and again: the sites of each are put back then. A place that also comes to an element beyond its block's edge,
 * as `a[j + 1]` does at the end of each row, has two sites in turn: the other one is laid aside.
 */
#include "block_sites.h"

#include "loops.h"
#include "objects.h"
#include "sites.h"

#define SETS 16
#define MOST_KEPT 48
#define ANCHORS 16 /* arrays whose sites are kept */

struct kept {
    struct site *where, site;
};

struct list {
    int count;
    struct kept kept[MOST_KEPT];
};

static struct set {
    uint64_t blocks;
    uintptr_t anchors[ANCHORS];
    struct list open, aside;
} sets[SETS];
static int set_count, next_set;

static struct list aside; /* of the blocks where the iterations are */

/* Where the own element of each array's aspect was when the opened sites were where they are; what the innermost index
 * adds is left out. */
static uintptr_t anchors[ANCHORS];

void block_sites_forget(void) { set_count = next_set = aside.count = 0; }

/* Append a copy of a site and its address to a list, unless the list is full. */
static void save_site(struct list *list, struct site *slot) {
    if (list->count < MOST_KEPT) list->kept[list->count++] = (struct kept){slot, *slot};
}

static struct site *next_site(struct site *site) { return site->next == site ? NULL : site->next; }

/* Exchange a saved site (what one place in the code may access) with the site that now stands at its address; the chain
 * of open sites stays as it is. */
static void exchange_saved_site(struct kept *saved) {
    struct site was = *saved->where;
    *saved->where = saved->site;
    saved->where->next = was.next;
    saved->site = was;
}

/* Save a site that follows its array before its place gets another one, so that it can come back. */
void lay_site_aside(struct site *site) {
    if (site->key && site->follows) save_site(&aside, site);
}

/* Put back a saved site (what one place in the code may access) that covers this access, if the place has one. Return
 * whether that was done. */
bool restore_laid_aside_site(struct site *site, uintptr_t address, size_t size) {
    for (struct kept *saved = aside.kept; saved < aside.kept + aside.count; saved++)
        if (saved->where == site && saved->site.key == site->key && saved->site.size == size &&
            address - saved->site.low <= saved->site.reach) {
            bool longer = saved->site.reach > site->reach;
            exchange_saved_site(saved);
            if (longer) site->changed = ++weft_sites_changed; /* what was proved with it stands without it */
            return true;
        }
    return false;
}

/* Return the address of the iteration's own element of an array, without the part that the innermost loop index
 * adds. */
static uintptr_t find_own_element_address(const struct aspect *aspect) {
    uintptr_t address = *aspect->home;
    int64_t own[WEFT_MAX_RANK];
    compute_own_element_index(aspect, weft_construct.index, own);
    for (int k = 0; k < aspect->object->rank; k++)
        if (!aspect->free[k] && aspect->own[k].axis == weft_construct.rank - 1)
            address -= (uintptr_t)((own[k] - aspect->object->lower[k]) * aspect->object->stride[k]);
    return address;
}

/* Let a site (what one place in the code may access) move along with the own element of an array, and note where that
 * element is now. Return false if the site cannot follow. */
bool let_site_follow_array(const struct aspect *aspect) {
    ptrdiff_t number = aspect - weft_construct.aspects;
    if (number >= ANCHORS || weft_construct.rank < 2 || !aspect->exact) return false;
    anchors[number] = find_own_element_address(aspect);
    return true;
}

/* Save all open and laid-aside sites (what places in the code may access) under the blocks that the iterations are
 * leaving (`blocks`: their hash), in place of the oldest set if the table is full. */
static void save_sites_of_blocks(uint64_t blocks) {
    struct set *set = sets;
    while (set < sets + set_count && set->blocks != blocks) set++;
    if (set == sets + set_count) {
        set = &sets[next_set];
        next_set = (next_set + 1) % SETS;
        set_count += set_count < SETS;
    }
    for (struct kept *saved = aside.kept; saved < aside.kept + aside.count; saved++)
        if (saved->site.key == saved->where->key && saved->site.reach > saved->where->reach) exchange_saved_site(saved);
    set->blocks = blocks;
    set->open.count = 0;
    set->aside.count = aside.count;
    for (int i = 0; i < ANCHORS; i++) set->anchors[i] = anchors[i];
    for (struct site *site = sites_opened(); site; site = next_site(site))
        if (site->key) save_site(&set->open, site);
    for (int i = 0; i < aside.count; i++) set->aside.kept[i] = aside.kept[i];
    aside.count = 0;
}

/* Open the saved sites (what places in the code may access) of these blocks again (`blocks`: their hash), if they are
 * in the table. */
static void restore_sites_of_blocks(uint64_t blocks) {
    for (const struct set *set = sets; set < sets + set_count; set++) {
        if (set->blocks != blocks) continue;
        for (int i = 0; i < ANCHORS; i++) anchors[i] = set->anchors[i];
        for (const struct kept *saved = set->open.kept; saved < set->open.kept + set->open.count; saved++) {
            *saved->where = saved->site;
            saved->where->next = NULL;
            saved->where->changed = weft_sites_changed;
            add_open_site(saved->where);
        }
        for (int i = 0; i < set->aside.count; i++) aside.kept[i] = set->aside.kept[i];
        aside.count = set->aside.count;
    }
}

/* Move a site's interval by `offset` bytes. Where the rows there are distributed otherwise, close the site instead. */
static void move_site_interval(struct site *site, uintptr_t offset) {
    uintptr_t low = site->low + offset;
    weft_sites_changed++;
    uintptr_t step = (uintptr_t)site->object->stride[site->follows - 1];
    if (low >= site->lowest && low <= site->highest && (low - site->lowest) % step == 0) {
        site->low = low;
        site->changed = weft_sites_changed;
        return;
    }
    site->key = 0;
    site->low = 1;
    site->reach = 0;
}

/* Move a site (what one place in the code may access) by the distance that its array's own element has moved.
 * `offsets`: bytes for each of `count` arrays. */
static void move_site_with_its_array(struct site *site, const uintptr_t offsets[], int count) {
    for (int i = 0; i < count && site->key && site->follows; i++)
        if (weft_construct.aspects[i].object == site->object && !weft_construct.aspects[i].remote && offsets[i]) {
            move_site_interval(site, offsets[i]);
            return;
        }
}

/* Move all sites (what places in the code may access) whose array's own element has moved since the last call, also the
 * saved ones. Drop saved ones that had to be closed. */
static void move_following_sites(void) {
    uintptr_t by[ANCHORS];
    bool moved = false;
    int count = weft_construct.aspect_count < ANCHORS ? weft_construct.aspect_count : ANCHORS;
    for (int i = 0; i < count; i++) {
        uintptr_t at = find_own_element_address(&weft_construct.aspects[i]);
        by[i] = at - anchors[i];
        anchors[i] = at;
        moved |= by[i] != 0;
    }
    if (!moved) return;
    for (struct site *site = sites_opened(); site; site = next_site(site)) move_site_with_its_array(site, by, count);
    for (struct kept *saved = aside.kept; saved < aside.kept + aside.count; saved++) {
        move_site_with_its_array(&saved->site, by, count);
        if (!saved->site.key) *saved-- = aside.kept[--aside.count];
    }
}

/* Bring the sites (what places in the code may access) up to date where a row of iterations begins or the iterations
 * enter other blocks of the grid. `previous_blocks`: hash of the blocks before. */
void update_sites_for_row(uint64_t previous_blocks) {
    if (weft_construct.blocks != previous_blocks) {
        save_sites_of_blocks(previous_blocks);
        close_sites();
        restore_sites_of_blocks(weft_construct.blocks);
    }
    move_following_sites();
}
