/* Parts of the program that a `weft cc` of another version built: they are not watched, and the record says so.
 *
 * They announce themselves when they are loaded, mostly before there is a record, and may be gone when there is one: what is
 * to be said is kept as words.
 */
#define _GNU_SOURCE
#include "access.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "client.h"

enum { STRANGERS = 8, LONGEST = 512 };
static char waiting[STRANGERS][LONGEST];
static int waiting_count;
static bool recording;

/* Record a note for people about accesses that are not watched. */
void weft_record_access_note(const char *words) {
    uint8_t payload[LONGEST + 16];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    weft_write_bytes(&text, words, strnlen(words, LONGEST));
    weft_write_definition(WEFT_DEF_NOTE, payload, (size_t)(text.p - payload));
}

/* Note that a part of the program was built by a `weft cc` of another version, and is not watched. Before there is a
 * record the note waits for weft_record_foreign_client_notes. */
void weft_note_foreign_client(const struct weft_client *client) {
    Dl_info info;
    char words[LONGEST];
    bool placed = dladdr(client, &info) && info.dli_fname && info.dli_fname[0];
    const char *weft = client->version < WEFT_CLIENT_NAMED ? "an older Weft"
                       : client->weft && client->weft[0]   ? client->weft
                                                           : "another Weft";
    snprintf(words, sizeof words,
             "loads and stores of %.300s, because it was built with `weft cc` of %.40s: build it again with `weft cc`",
             placed ? info.dli_fname : "a part of the program", weft);
    if (recording) weft_record_access_note(words);
    else if (waiting_count < STRANGERS) memcpy(waiting[waiting_count++], words, sizeof words);
}

/* Record the notes of weft_note_foreign_client that came before the record began. */
void weft_record_foreign_client_notes(void) {
    recording = true;
    for (int i = 0; i < waiting_count; i++) weft_record_access_note(waiting[i]);
    waiting_count = 0;
}
