/* Arrays that are distributed element by element, and their edges. */
#ifndef WEFT_CHECK_SCATTERED_H
#define WEFT_CHECK_SCATTERED_H

#include "objects.h"

bool is_scattered(const struct object *root);
unsigned scattered_foreign_dimensions(const struct object *object, const int64_t index[]);
int scattered_find_edge(const struct object *object, const int64_t index[], unsigned foreign_dimensions,
                        stamp_t *renewal_stamp);
void scattered_renew(struct object *object, int name);
void scattered_forget(struct object *object);

#endif
