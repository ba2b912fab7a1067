/* Which processor of the grid has which elements. */
#ifndef WEFT_CHECK_OWNERSHIP_H
#define WEFT_CHECK_OWNERSHIP_H

#include "objects.h"

bool has_grid(void);
bool has_same_owner(const struct object *root, int dimension, int64_t first, int64_t second);
int grid_coordinates(int processor, int coordinates[WEFT_MAX_RANK]);
int grid_axis(const struct object *root, int dimension);
int64_t grid_coordinate_of_owner(const struct object *root, int dimension, int64_t element);
int find_paired_dimension(const struct object *root, int dimension, const struct object *other);
bool is_distributed_alike(const struct object *first, int first_dimension, const struct object *second,
                          int second_dimension);
bool is_same_processor(const struct object *first, int first_dimension, int64_t first_element,
                       const struct object *second, int second_dimension, int64_t second_element);
void block_bounds(const struct object *root, int dimension, int64_t coordinate, int64_t *low, int64_t *high);
int64_t block_low(const struct object *root, int dimension, int64_t coordinate);
int64_t block_high(const struct object *root, int dimension, int64_t coordinate);

#endif
