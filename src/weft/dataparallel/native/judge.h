/* Whether an access is right that no site lets pass. */
#ifndef WEFT_CHECK_JUDGE_H
#define WEFT_CHECK_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct site;
void judge_reduction_starts(void);
void judge_access(uintptr_t address, size_t size, bool is_write, uintptr_t pc, struct site *site);

#endif
