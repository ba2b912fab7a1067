/* Whether an access is right that no site lets pass. */
#ifndef WEFT_CHECK_JUDGE_H
#define WEFT_CHECK_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct site;
void judge_reductions(void);
void judge(uintptr_t a, size_t size, bool write, uintptr_t place, struct site *s);

#endif
