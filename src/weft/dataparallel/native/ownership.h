/* Which processor of the grid has which elements. */
#ifndef WEFT_CHECK_OWNERSHIP_H
#define WEFT_CHECK_OWNERSHIP_H

#include "objects.h"

bool gridded(void);
bool same_owner(const struct object *root, int dimension, int64_t a, int64_t b);
int grid_place(int processor, int at[WEFT_MAX_RANK]);
int grid_axis(const struct object *root, int dimension);
int64_t grid_part(const struct object *root, int dimension, int64_t t);
int paired(const struct object *root, int d, const struct object *other);
bool alike_distributed(const struct object *a, int d, const struct object *b, int e);
bool same_processor(const struct object *a, int d, int64_t t, const struct object *b, int e, int64_t u);
void block_of(const struct object *root, int dimension, int64_t t, int64_t *low, int64_t *high);
int64_t block_low(const struct object *root, int dimension, int64_t t);
int64_t block_high(const struct object *root, int dimension, int64_t t);

#endif
