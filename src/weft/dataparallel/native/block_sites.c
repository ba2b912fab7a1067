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

static void add(struct list *l, struct site *where) {
    if (l->count < MOST_KEPT) l->kept[l->count++] = (struct kept){where, *where};
}

static struct site *next_site(struct site *s) { return s->next == s ? NULL : s->next; }

static void swap_site(struct kept *one) {
    struct site was = *one->where;
    *one->where = one->site;
    one->where->next = was.next;
    one->site = was;
}

/* Its place is to have another site. */
void block_site_aside(struct site *s) {
    if (s->key && s->follows) add(&aside, s);
}

/* Whether a site that was laid aside of this one's place has the element: it is the place's again. */
bool block_site_again(struct site *s, uintptr_t a, size_t size) {
    for (struct kept *one = aside.kept; one < aside.kept + aside.count; one++)
        if (one->where == s && one->site.key == s->key && one->site.size == size &&
            a - one->site.low <= one->site.reach) {
            bool longer = one->site.reach > s->reach;
            swap_site(one);
            if (longer) s->changed = ++weft_sites_changed; /* what was proved with it stands without it */
            return true;
        }
    return false;
}

static uintptr_t block_anchor(const struct aspect *v) {
    uintptr_t a = *v->home;
    int64_t own[WEFT_MAX_RANK];
    home_of(v, here.index, own);
    for (int k = 0; k < v->object->rank; k++)
        if (!v->free[k] && v->own[k].axis == here.rank - 1)
            a -= (uintptr_t)((own[k] - v->object->lower[k]) * v->object->stride[k]);
    return a;
}

/* A site of the aspect's array is being opened: its interval goes along with the aspect from here on. */
bool block_site_follows(const struct aspect *v) {
    ptrdiff_t number = v - here.aspects;
    if (number >= ANCHORS || here.rank < 2 || !v->exact) return false;
    anchors[number] = block_anchor(v);
    return true;
}

static void keep_sites(uint64_t blocks) {
    struct set *set = sets;
    while (set < sets + set_count && set->blocks != blocks) set++;
    if (set == sets + set_count) {
        set = &sets[next_set];
        next_set = (next_set + 1) % SETS;
        set_count += set_count < SETS;
    }
    for (struct kept *one = aside.kept; one < aside.kept + aside.count; one++)
        if (one->site.key == one->where->key && one->site.reach > one->where->reach) swap_site(one);
    set->blocks = blocks;
    set->open.count = 0;
    set->aside.count = aside.count;
    for (int i = 0; i < ANCHORS; i++) set->anchors[i] = anchors[i];
    for (struct site *s = sites_opened(); s; s = next_site(s))
        if (s->key) add(&set->open, s);
    for (int i = 0; i < aside.count; i++) set->aside.kept[i] = aside.kept[i];
    aside.count = 0;
}

static void restore_sites(uint64_t blocks) {
    for (const struct set *set = sets; set < sets + set_count; set++) {
        if (set->blocks != blocks) continue;
        for (int i = 0; i < ANCHORS; i++) anchors[i] = set->anchors[i];
        for (const struct kept *one = set->open.kept; one < set->open.kept + set->open.count; one++) {
            *one->where = one->site;
            one->where->next = NULL;
            one->where->changed = weft_sites_changed;
            open_site(one->where);
        }
        for (int i = 0; i < set->aside.count; i++) aside.kept[i] = set->aside.kept[i];
        aside.count = set->aside.count;
    }
}

/* Its interval moves; where the rows there are not alike it is to be opened anew. */
static void move_interval(struct site *s, uintptr_t by) {
    uintptr_t low = s->low + by;
    weft_sites_changed++;
    uintptr_t step = (uintptr_t)s->object->stride[s->follows - 1];
    if (low >= s->lowest && low <= s->highest && (low - s->lowest) % step == 0) {
        s->low = low;
        s->changed = weft_sites_changed;
        return;
    }
    s->key = 0;
    s->low = 1;
    s->reach = 0;
}

static void follow_arrays(struct site *s, const uintptr_t by[], int count) {
    for (int i = 0; i < count && s->key && s->follows; i++)
        if (here.aspects[i].object == s->object && !here.aspects[i].remote && by[i]) {
            move_interval(s, by[i]);
            return;
        }
}

/* All sites that follow arrays which have moved since. */
static void move_following_sites(void) {
    uintptr_t by[ANCHORS];
    bool moved = false;
    int count = here.aspect_count < ANCHORS ? here.aspect_count : ANCHORS;
    for (int i = 0; i < count; i++) {
        uintptr_t at = block_anchor(&here.aspects[i]);
        by[i] = at - anchors[i];
        anchors[i] = at;
        moved |= by[i] != 0;
    }
    if (!moved) return;
    for (struct site *s = sites_opened(); s; s = next_site(s)) follow_arrays(s, by, count);
    for (struct kept *one = aside.kept; one < aside.kept + aside.count; one++) {
        follow_arrays(&one->site, by, count);
        if (!one->site.key) *one-- = aside.kept[--aside.count];
    }
}

/* A row of iterations begins, or another block: the blocks were `from`. */
void block_sites(uint64_t from) {
    if (here.blocks != from) {
        keep_sites(from);
        close_sites();
        restore_sites(here.blocks);
    }
    move_following_sites();
}
