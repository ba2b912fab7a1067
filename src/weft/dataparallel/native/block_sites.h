/* Sites that are right in one block of a grid, kept for when iterations come to it again. */
#ifndef WEFT_CHECK_BLOCK_SITES_H
#define WEFT_CHECK_BLOCK_SITES_H

#include "objects.h"

struct aspect;
bool block_site_follows(const struct aspect *v);
bool block_site_again(struct site *s, uintptr_t a, size_t size);
void block_site_aside(struct site *s);
void block_sites(uint64_t from);
void block_sites_forget(void);

#endif
