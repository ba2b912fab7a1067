/* Statements outside of loops that only the owner of an element executes. */
#ifndef WEFT_CHECK_OWNED_H
#define WEFT_CHECK_OWNED_H

#include <stdint.h>

struct aspect;
struct site;
extern uint16_t weft_context; /* which statement with an owner is being run; 0: none */
void derive_moves_of_own_element(struct aspect *aspect);
void forget_sites_and_own_elements(void);
void note_site_in_called_function(struct site *site);

#endif
