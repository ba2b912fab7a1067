/* Which elements have one owner: all of a block of the grid that --grid asks for, else each is its own. */
#include "ownership.h"

#include "objects.h"

#include <stdlib.h>
#include <string.h>

static struct {
    int counts[WEFT_MAX_RANK];
    int rank;
} grid = {.rank = -1};

/* Read the grid of processors from WEFT_INTERNAL_CHECK_GRID, such as 2x3. */
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

bool has_grid(void) {
    if (grid.rank < 0) read_grid();
    return grid.rank > 0;
}

/* Return how many processors there are along a dimension of a distributed array; 0: no grid, each element has an owner
 * of its own. */
static int count_processors_along(const struct object *root, int dimension) {
    if (!has_grid()) return 0;
    int k = 0;
    for (int d = 0; d < dimension; d++) k += root->kinds[d] != WEFT_WHOLE;
    return k < grid.rank ? grid.counts[k] : 1;
}

/* Return the number of the block that holds a coordinate (from 0) of a dimension with `extent` elements; *low and
 * *high: its first and last element. Blocks are equal, or GEN_BLOCK's sizes. */
static int64_t find_block_of_coordinate(const struct object *root, int dimension, int64_t coordinate, int64_t extent,
                                        int processors, int64_t *low, int64_t *high) {
    const double *sizes = root->blocks[dimension];
    if (sizes && root->kinds[dimension] == WEFT_GENBLOCK) {
        int64_t begin = 0;
        for (int64_t p = 0; p < root->block_count[dimension]; p++) {
            int64_t end = begin + (int64_t)sizes[p];
            if (coordinate < end || p == root->block_count[dimension] - 1) {
                *low = begin;
                *high = end - 1;
                return p;
            }
            begin = end;
        }
    }
    int64_t each = (extent + processors - 1) / processors;
    if (each < 1) each = 1;
    int64_t p = coordinate / each;
    *low = p * each;
    *high = *low + each - 1;
    return p;
}

/* Set *low and *high to the first and last element of the processors' block that holds a coordinate; to the coordinate
 * itself without a grid of processors. `root`: the array or template whose distribution others follow. */
void find_block_bounds(const struct object *root, int dimension, int64_t coordinate, int64_t *low, int64_t *high) {
    int parts = count_processors_along(root, dimension);
    *low = *high = coordinate;
    if (!parts) return;
    find_block_of_coordinate(root, dimension, coordinate - root->lower[dimension], root->extent[dimension], parts, low,
                             high);
    *low += root->lower[dimension];
    *high += root->lower[dimension];
}

/* Return the first element of the block that holds a coordinate in one dimension. `root`: the array or template whose
 * distribution others follow. */
int64_t find_first_element_of_block(const struct object *root, int dimension, int64_t coordinate) {
    int64_t low, high;
    find_block_bounds(root, dimension, coordinate, &low, &high);
    return low;
}

/* Return the last element of the block that holds a coordinate in one dimension. `root`: the array or template whose
 * distribution others follow. */
int64_t find_last_element_of_block(const struct object *root, int dimension, int64_t coordinate) {
    int64_t low, high;
    find_block_bounds(root, dimension, coordinate, &low, &high);
    return high;
}

/* Return the dimension of `other` that is distributed over the same dimension of the processors as `dimension` of
 * `root`; -1 if there is none. */
int find_paired_dimension(const struct object *root, int dimension, const struct object *other) {
    int k = 0;
    for (int i = 0; i < dimension; i++) k += root->kinds[i] != WEFT_WHOLE;
    for (int i = 0; i < other->rank; i++)
        if (other->kinds[i] != WEFT_WHOLE && k-- == 0) return i;
    return -1;
}

/* Return whether dimensions of two arrays or templates are distributed in the same way, so that equal indices have one
 * owner however many processors there are. */
bool are_dimensions_distributed_alike(const struct object *first, int first_dimension, const struct object *second,
                                      int second_dimension) {
    if (first->kinds[first_dimension] != second->kinds[second_dimension] ||
        first->extent[first_dimension] != second->extent[second_dimension])
        return false;
    if (!first->blocks[first_dimension] || !second->blocks[second_dimension])
        return first->blocks[first_dimension] == second->blocks[second_dimension];
    return first->block_count[first_dimension] == second->block_count[second_dimension] &&
           memcmp(first->blocks[first_dimension], second->blocks[second_dimension],
                  (size_t)first->block_count[first_dimension] * sizeof *first->blocks[first_dimension]) == 0;
}

/* Return whether elements of two arrays' dimensions belong to the same processor. Only with a grid of processors. */
bool have_elements_same_processor(const struct object *first, int first_dimension, int64_t first_element,
                                  const struct object *second, int second_dimension, int64_t second_element) {
    int64_t low, high;
    return find_block_of_coordinate(first, first_dimension, first_element - first->lower[first_dimension],
                                    first->extent[first_dimension], count_processors_along(first, first_dimension),
                                    &low, &high) ==
           find_block_of_coordinate(second, second_dimension, second_element - second->lower[second_dimension],
                                    second->extent[second_dimension], count_processors_along(second, second_dimension),
                                    &low, &high);
}

/* Return whether two elements of one dimension belong to the same processor; without a grid each element has a
 * processor of its own. `root`: the array or template whose distribution others follow. */
bool have_elements_same_owner(const struct object *root, int dimension, int64_t first_element, int64_t second_element) {
    int64_t low, high;
    if (first_element == second_element) return true;
    find_block_bounds(root, dimension, first_element, &low, &high);
    return low <= second_element && second_element <= high;
}

/* --- the grid's processors, for turns.c --- */

/* Set the coordinates of a processor in the grid, by its number; the last coordinate runs fastest. Return how many
 * there are. */
int find_grid_coordinates(int processor, int coordinates[WEFT_MAX_RANK]) {
    has_grid();
    for (int k = grid.rank - 1; k >= 0; k--) {
        coordinates[k] = processor % grid.counts[k];
        processor /= grid.counts[k];
    }
    return grid.rank;
}

/* Return the dimension of the grid of processors over which an array's dimension is distributed; -1: none, or there is
 * no grid. */
int find_grid_axis(const struct object *root, int dimension) {
    if (root->kinds[dimension] == WEFT_WHOLE) return -1;
    int k = 0;
    for (int d = 0; d < dimension; d++) k += root->kinds[d] != WEFT_WHOLE;
    return has_grid() && k < grid.rank ? k : -1;
}

/* Return which processor owns an element of one dimension: the coordinate along the grid's dimension. */
int64_t find_owner_coordinate(const struct object *root, int dimension, int64_t element) {
    int64_t low, high, parts = count_processors_along(root, dimension), x = element - root->lower[dimension];
    if (parts < 1) return 0;
    if (root->owner[dimension] && x >= 0 && x < root->extent[dimension]) return root->owner[dimension][x] % parts;
    int64_t part = find_block_of_coordinate(root, dimension, x, root->extent[dimension], (int)parts, &low, &high);
    return part < 0 ? 0 : part >= parts ? parts - 1 : part;
}
