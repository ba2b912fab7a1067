/* Sites that are right in one block of a grid, kept for when iterations come to it again. */
#ifndef WEFT_CHECK_BLOCK_SITES_H
#define WEFT_CHECK_BLOCK_SITES_H

#include "objects.h"

struct aspect;
bool let_site_follow_array(const struct aspect *aspect);
bool restore_laid_aside_site(struct site *site, uintptr_t address, size_t size);
void lay_site_aside(struct site *site);
void update_sites_for_row(uint64_t previous_blocks);
void block_sites_forget(void);

#endif
