/* Reductions: what is declared against what the loop does. */
#ifndef WEFT_CHECK_REDUCTIONS_H
#define WEFT_CHECK_REDUCTIONS_H

void fork_reduction_verifications(void);
void begin_verified_iteration(void);
void finish_reduction_verifications(void);
void guard_partial_reductions(void);

#endif
