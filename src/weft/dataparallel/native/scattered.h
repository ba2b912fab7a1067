/* Arrays that are distributed element by element, and their edges. */
#ifndef WEFT_CHECK_SCATTERED_H
#define WEFT_CHECK_SCATTERED_H

#include "objects.h"

bool scattered(const struct object *root);
unsigned scattered_apart(const struct object *o, const int64_t at[]);
int scattered_edge(const struct object *o, const int64_t at[], unsigned apart, stamp_t *when);
void scattered_renew(struct object *o, int name);
void scattered_forget(struct object *o);

#endif
