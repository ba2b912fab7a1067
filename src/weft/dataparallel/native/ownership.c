/* Which elements have one owner: all of a block of the grid that --grid asks for, else each is its own. */
#include "ownership.h"

#include "objects.h"

#include <stdlib.h>
#include <string.h>

static struct {
    int counts[WEFT_MAX_RANK];
    int rank;
} grid = {.rank = -1};

static void read_grid(void) {
    const char *text = getenv("WEFT_INTERNAL_CHECK_GRID");
    grid.rank = 0;
    while (text && *text && grid.rank < WEFT_MAX_RANK) {
        char *end;
        long n = strtol(text, &end, 10);
        if (end == text || n < 1) break;
        grid.counts[grid.rank++] = (int)n;
        text = *end == 'x' ? end + 1 : end;
    }
}

bool gridded(void) {
    if (grid.rank < 0) read_grid();
    return grid.rank > 0;
}

static int blocks_of(const struct object *root, int dimension) /* processors along a dimension; 0: each cell is one */
{
    if (!gridded()) return 0;
    int k = 0;
    for (int d = 0; d < dimension; d++) k += root->kinds[d] != WEFT_WHOLE;
    return k < grid.rank ? grid.counts[k] : 1;
}

/* Which block a coordinate (from 0) of `extent` lies in, and where that block begins and ends. */
static int64_t block(const struct object *root, int dimension, int64_t x, int64_t extent, int parts, int64_t *low,
                     int64_t *high) {
    const double *sizes = root->blocks[dimension];
    if (sizes && root->kinds[dimension] == WEFT_GENBLOCK) {
        int64_t begin = 0;
        for (int64_t p = 0; p < root->block_count[dimension]; p++) {
            int64_t end = begin + (int64_t)sizes[p];
            if (x < end || p == root->block_count[dimension] - 1) {
                *low = begin;
                *high = end - 1;
                return p;
            }
            begin = end;
        }
    }
    int64_t each = (extent + parts - 1) / parts;
    if (each < 1) each = 1;
    int64_t p = x / each;
    *low = p * each;
    *high = *low + each - 1;
    return p;
}

/* The first and the last element, in dimension d, of the block that holds t; t itself where none is distributed. */
void block_of(const struct object *root, int d, int64_t t, int64_t *low, int64_t *high) {
    int parts = blocks_of(root, d);
    *low = *high = t;
    if (!parts) return;
    block(root, d, t - root->lower[d], root->extent[d], parts, low, high);
    *low += root->lower[d];
    *high += root->lower[d];
}

int64_t block_low(const struct object *root, int d, int64_t t) {
    int64_t low, high;
    block_of(root, d, t, &low, &high);
    return low;
}

int64_t block_high(const struct object *root, int d, int64_t t) {
    int64_t low, high;
    block_of(root, d, t, &low, &high);
    return high;
}

/* The dimension of a root that is distributed onto the same one of the processors as dimension d of another; -1: none. */
int paired(const struct object *root, int d, const struct object *other) {
    int k = 0;
    for (int i = 0; i < d; i++) k += root->kinds[i] != WEFT_WHOLE;
    for (int i = 0; i < other->rank; i++)
        if (other->kinds[i] != WEFT_WHOLE && k-- == 0) return i;
    return -1;
}

/* Whether two dimensions lie alike on the processors, how many of these there may be. */
bool alike_distributed(const struct object *a, int d, const struct object *b, int e) {
    if (a->kinds[d] != b->kinds[e] || a->extent[d] != b->extent[e]) return false;
    if (!a->blocks[d] || !b->blocks[e]) return a->blocks[d] == b->blocks[e];
    return a->block_count[d] == b->block_count[e] &&
           memcmp(a->blocks[d], b->blocks[e], (size_t)a->block_count[d] * sizeof *a->blocks[d]) == 0;
}

/* With a grid: whether the processor of element t in dimension d of a root is that of element u in e of another. */
bool same_processor(const struct object *a, int d, int64_t t, const struct object *b, int e, int64_t u) {
    int64_t low, high;
    return block(a, d, t - a->lower[d], a->extent[d], blocks_of(a, d), &low, &high) ==
           block(b, e, u - b->lower[e], b->extent[e], blocks_of(b, e), &low, &high);
}

bool same_owner(const struct object *root, int d, int64_t a, int64_t b) {
    int64_t low, high;
    if (a == b) return true;
    block_of(root, d, a, &low, &high);
    return low <= b && b <= high;
}

/* --- the grid's processors, for turns.c --- */

/* Where a processor lies: the last number runs fastest. */
int grid_place(int processor, int at[WEFT_MAX_RANK]) {
    gridded();
    for (int k = grid.rank - 1; k >= 0; k--) {
        at[k] = processor % grid.counts[k];
        processor /= grid.counts[k];
    }
    return grid.rank;
}

/* The dimension of the grid that a root's dimension lies on; -1: none. */
int grid_axis(const struct object *root, int dimension) {
    if (root->kinds[dimension] == WEFT_WHOLE) return -1;
    int k = 0;
    for (int d = 0; d < dimension; d++) k += root->kinds[d] != WEFT_WHOLE;
    return gridded() && k < grid.rank ? k : -1;
}

/* Which processor along that dimension an element is on. */
int64_t grid_part(const struct object *root, int d, int64_t t) {
    int64_t low, high, parts = blocks_of(root, d), x = t - root->lower[d];
    if (parts < 1) return 0;
    if (root->owner[d] && x >= 0 && x < root->extent[d]) return root->owner[d][x] % parts;
    int64_t part = block(root, d, x, root->extent[d], (int)parts, &low, &high);
    return part < 0 ? 0 : part >= parts ? parts - 1 : part;
}
