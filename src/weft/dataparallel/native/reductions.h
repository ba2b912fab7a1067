/* Reductions: what is declared against what the loop does. */
#ifndef WEFT_CHECK_REDUCTIONS_H
#define WEFT_CHECK_REDUCTIONS_H

void reductions_fork(void);
void reductions_iteration(void);
void reductions_end(void);
void reductions_guard_partial(void);

#endif
