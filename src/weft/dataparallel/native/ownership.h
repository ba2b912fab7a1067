/* Which processor of the grid has which elements. */
#ifndef WEFT_CHECK_OWNERSHIP_H
#define WEFT_CHECK_OWNERSHIP_H

#include "objects.h"

bool has_grid(void);
bool have_elements_same_owner(const struct object *root, int dimension, int64_t first_element, int64_t second_element);
int find_grid_coordinates(int processor, int coordinates[WEFT_MAX_RANK]);
int find_grid_axis(const struct object *root, int dimension);
int64_t find_owner_coordinate(const struct object *root, int dimension, int64_t element);
int find_paired_dimension(const struct object *root, int dimension, const struct object *other);
bool are_dimensions_distributed_alike(const struct object *first, int first_dimension, const struct object *second,
                                      int second_dimension);
bool have_elements_same_processor(const struct object *first, int first_dimension, int64_t first_element,
                                  const struct object *second, int second_dimension, int64_t second_element);
void find_block_bounds(const struct object *root, int dimension, int64_t coordinate, int64_t *low, int64_t *high);
int64_t find_first_element_of_block(const struct object *root, int dimension, int64_t coordinate);
int64_t find_last_element_of_block(const struct object *root, int dimension, int64_t coordinate);

#endif
