/* Sites that are right in one block of a grid, kept for when iterations come to it again. */
#ifndef WEFT_CHECK_BLOCK_SITES_H
#define WEFT_CHECK_BLOCK_SITES_H

#include "objects.h"

struct aspect;
bool block_site_starts_following(const struct aspect *aspect);
bool block_site_restore(struct site *site, uintptr_t address, size_t size);
void block_site_lay_aside(struct site *site);
void block_sites_enter_row(uint64_t previous_blocks);
void block_sites_forget(void);

#endif
