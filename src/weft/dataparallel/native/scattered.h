/* Arrays that are distributed element by element, and their edges. */
#ifndef WEFT_CHECK_SCATTERED_H
#define WEFT_CHECK_SCATTERED_H

#include "objects.h"

bool is_distributed_by_table(const struct object *root);
unsigned find_foreign_dimensions(const struct object *object, const int64_t index[]);
int find_edge_for_element(const struct object *object, const int64_t index[], unsigned foreign_dimensions,
                          stamp_t *renewal_stamp);
void renew_named_edges(struct object *object, int edge_name);
void forget_edges_and_owners(struct object *object);

#endif
