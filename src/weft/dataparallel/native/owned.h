/* Statements outside of loops that only the owner of an element executes. */
#ifndef WEFT_CHECK_OWNED_H
#define WEFT_CHECK_OWNED_H

#include <stdint.h>

struct aspect;
struct site;
extern uint16_t weft_context; /* which statement with an owner is being run; 0: none */
void owned_derive_moves(struct aspect *aspect);
void owned_forget_all(void);
void owned_note_called_site(struct site *site);

#endif
