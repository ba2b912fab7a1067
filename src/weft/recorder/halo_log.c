/* The file of a native program's arrays with ghost cells, RUN/halo: as weft/halo/log.py reads it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "halo.h"
#include "process.h"

enum { MOST_BYTES = 1 << 29, PIECE = 1 << 16 };

static FILE *file;
static uint64_t written;
static struct {
    uint64_t *hashes; /* of uses; the number of one is that of its slot in `numbers` */
    uint32_t *numbers, n, space;
} uses;

/* ---- JSON ---- */
struct text {
    char *bytes;
    size_t n, space;
};

/* Appends bytes to a text that grows. */
static void put(struct text *t, const void *bytes, size_t n) {
    if (t->n + n > t->space) {
        size_t space = (t->n + n) * 2;
        char *more = realloc(t->bytes, space);
        if (!more) return;
        t->bytes = more;
        t->space = space;
    }
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
}

static void put_words(struct text *t, const char *words) { put(t, words, strlen(words)); }

/* Appends a number to a text. */
static void put_number(struct text *t, int64_t number) {
    char digits[32];
    put(t, digits, (size_t)snprintf(digits, sizeof digits, "%lld", (long long)number));
}

/* Appends a list of numbers to a text as JSON, after `name`. */
static void put_list(struct text *t, const char *name, const int64_t *numbers, int n) {
    put_words(t, name);
    for (int k = 0; k < n; k++) {
        put_words(t, k ? "," : "[");
        put_number(t, numbers[k]);
    }
    put_words(t, n ? "]" : "[]");
}

/* What is not plain ASCII is left out. */
static void put_string(struct text *t, const char *string) {
    put_words(t, "\"");
    for (; string && *string; string++) {
        if (*string == '"' || *string == '\\') put_words(t, "\\");
        if (*string >= ' ' && *string < 127) put(t, string, 1);
    }
    put_words(t, "\"");
}

/* ---- the file ---- */
/* Makes the file for this process's arrays with ghost cells; false if that fails. */
bool weft_open_ghost_log(void) {
    char path[PATH_MAX + 320], host[256] = "";
    gethostname(host, sizeof host - 1);
    snprintf(path, sizeof path, "%s/halo", weft_run_path);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/halo/%s-%d.halo", weft_run_path, host, (int)getpid());
    file = fopen(path, "wbxe"); /* in a program of Python its own arrays may have it */
    if (!file) {
        weft_record_access_note("uses of ghost cells: their file could not be made");
        return false;
    }
    setvbuf(file, NULL, _IOFBF, PIECE);
    fwrite("WEFTHALO", 8, 1, file);
    return true;
}

void weft_close_ghost_log(void) {
    if (file) fclose(file);
    file = NULL;
}

/* What its parent has not written yet is not a child's to write. */
void weft_drop_ghost_log_in_child(void) {
    if (file) {
        __fpurge(file);
        fclose(file);
    }
    file = NULL;
}

bool weft_is_ghost_log_full(void) { return written > MOST_BYTES; }

/* Writes a record into the file: its kind, moment, head and payload. */
void weft_write_ghost_record(int kind, uint64_t moment, const void *head, size_t head_n, const void *payload,
                             size_t n) {
    struct {
        uint8_t kind, nothing[3];
        uint32_t bytes;
        uint64_t moment;
    } of = {.kind = (uint8_t)kind, .bytes = (uint32_t)(head_n + n), .moment = moment};
    if (!file) return;
    fwrite(&of, sizeof of, 1, file);
    if (head_n) fwrite(head, head_n, 1, file);
    if (n) fwrite(payload, n, 1, file);
    written += sizeof of + head_n + n;
}

/* ---- records ---- */
/* Writes down a use: which line stores into which cells, and which ghosts it loads for them. */
static void use_write(const struct group *g, uint32_t number) {
    struct text t = {0};
    put_words(&t, "{\"id\":");
    put_number(&t, number);
    put_words(&t, ",\"what\":\"store\",\"part\":");
    put_number(&t, g->part->number);
    put_words(&t, ",\"at\":");
    put_number(&t, weft_find_code_site(g->at));
    put_words(&t, g->copies ? ",\"computed\":false" : ",\"computed\":null");
    put_words(&t, ",\"cells\":{\"places\":[");
    for (uint32_t k = 0; k < g->places_n; k++) {
        if (k) put_words(&t, ",");
        put_number(&t, g->places[k]);
    }
    put_words(&t, "]},\"reads\":[");
    for (uint32_t r = 0; r < g->reads; r++) {
        put_words(&t, r ? ",{\"part\":" : "{\"part\":");
        put_number(&t, g->read[r].part->number);
        put_words(&t, ",\"at\":");
        put_number(&t, weft_find_code_site(g->read[r].at));
        put_words(&t, ",\"pairs\":[");
        bool first = true;
        for (uint32_t k = 0; k < g->pairs_n; k++) {
            if (g->pairs[k].read != r) continue;
            put_list(&t, first ? "" : ",", (int64_t[]){g->pairs[k].ghost, g->pairs[k].target}, 2);
            first = false;
        }
        put_words(&t, "]}");
    }
    put_words(&t, "]}");
    weft_write_ghost_record(USE, g->moment, NULL, 0, t.bytes, t.n);
    free(t.bytes);
}

/* Doubles the table of uses; false without memory. */
static bool uses_grow(void) {
    uint32_t space = uses.space ? uses.space * 2 : FIRST;
    uint64_t *hashes = calloc(space, sizeof *hashes);
    uint32_t *numbers = calloc(space, sizeof *numbers);
    if (!hashes || !numbers) {
        free(hashes);
        free(numbers);
        return false;
    }
    for (uint32_t k = 0; k < uses.space; k++) {
        if (!uses.hashes[k]) continue;
        uint32_t at = (uint32_t)uses.hashes[k] & (space - 1);
        while (hashes[at]) at = (at + 1) & (space - 1);
        hashes[at] = uses.hashes[k];
        numbers[at] = uses.numbers[k];
    }
    free(uses.hashes);
    free(uses.numbers);
    uses.hashes = hashes;
    uses.numbers = numbers;
    uses.space = space;
    return true;
}

/* The number of a group's use, which is written down when it comes for the first time. */
static uint32_t use_of(const struct group *g) {
    uint64_t hash = g->hash ? g->hash : 1;
    if (uses.n * 2 >= uses.space && !uses_grow()) return UINT32_MAX;
    uint32_t at = (uint32_t)hash & (uses.space - 1);
    for (; uses.hashes[at]; at = (at + 1) & (uses.space - 1))
        if (uses.hashes[at] == hash) return uses.numbers[at];
    uses.hashes[at] = hash;
    uses.numbers[at] = uses.n++;
    use_write(g, uses.numbers[at]);
    return uses.numbers[at];
}

/* Writes down a group of stores: its use, and which looks at ghosts its loads belong to. */
void weft_write_store_group(const struct group *g) {
    struct {
        uint64_t moment;
        uint32_t looks, runs;
    } reads[READS];
    uint32_t head[2] = {use_of(g), g->reads};
    for (uint32_t r = 0; r < g->reads; r++) {
        reads[r].moment = g->moment;
        reads[r].looks = (uint32_t)g->read[r].looks;
        reads[r].runs = (uint32_t)g->read[r].runs;
    }
    if (head[0] != UINT32_MAX)
        weft_write_ghost_record(RUN, g->moment, head, sizeof head, reads, g->reads * sizeof *reads);
}

/* Dimensions of the array that a communicator's may cut, as weft.halo.global_arrays has them. */
static int cut(const struct part *p) {
    int n = 0;
    for (int d = 0; d < p->dims; d++) n += p->halo[d] != 0;
    return n ? n : p->dims;
}

/* Reads the grid of ranks of a communicator: a cartesian one, or all ranks in a row. */
void weft_read_process_grid(MPI_Comm comm, struct grid *grid) {
    int kind = MPI_UNDEFINED;
    memset(grid, 0, sizeof *grid);
    if (comm == MPI_COMM_NULL) return;
    if (REAL(MPI_Topo_test)(comm, &kind) != MPI_SUCCESS || kind != MPI_CART) {
        grid->n = 1;
        REAL(MPI_Comm_size)(comm, grid->dims);
        REAL(MPI_Comm_rank)(comm, grid->coordinates);
    } else if (REAL(MPI_Cartdim_get)(comm, &grid->n) == MPI_SUCCESS && grid->n <= GRID)
        REAL(MPI_Cart_get)(comm, grid->n, grid->dims, grid->periods, grid->coordinates);
    else grid->n = 0;
}

/* Appends the grid of ranks of a part as JSON. */
static void put_grid(struct text *t, const struct part *p, const struct said *said) {
    const struct grid *g = &said->grid;
    int64_t lists[3][GRID];
    int n = g->n, all = said->reversed && n ? cut(p) : n; /* those that are not cut stand before, and have one rank */
    if (said->inferred && n == p->dims) all = n;
    for (int k = 0; k < all; k++) {
        int from = said->reversed ? all - 1 - k : k;
        lists[0][k] = from < n ? g->dims[from] : 1;
        lists[1][k] = from < n ? g->coordinates[from] : 0;
        lists[2][k] = from < n && g->periods[from];
    }
    put_list(t, ",\"grid\":{\"dims\":", lists[0], all);
    put_list(t, ",\"coordinates\":", lists[1], all);
    put_list(t, ",\"periods\":", lists[2], all);
    put_words(t, "}");
}

/* Writes the declaration of a part down, as JSON. */
void weft_write_array_declaration(const struct part *p, const struct said *said, uint64_t moment) {
    struct text t = {0};
    int64_t strides[DIMENSIONS], stride = (int64_t)p->size;
    for (int d = p->dims - 1; d >= 0; stride *= p->shape[d--]) strides[d] = stride;
    put_words(&t, "{\"id\":");
    put_number(&t, p->number);
    put_words(&t, ",\"of\":");
    put_string(&t, said->of);
    put_list(&t, ",\"shape\":", p->shape, p->dims);
    put_list(&t, ",\"strides\":", strides, p->dims);
    put_words(&t, ",\"halo\":");
    for (int d = 0; d < p->dims; d++) put_list(&t, d ? "," : "[", (int64_t[]){p->halo[d], p->halo[d]}, 2);
    if (said->lower) put_list(&t, "],\"lower\":", said->lower, p->dims);
    else put_words(&t, "],\"lower\":null");
    put_words(&t, ",\"whole\":null");
    if (said->periodic) put_list(&t, ",\"periodic\":", said->periodic, p->dims);
    else put_words(&t, ",\"periodic\":null");
    put_words(&t, ",\"lag\":");
    put_number(&t, said->lag);
    put_grid(&t, p, said);
    if (said->reversed) put_words(&t, ",\"reversed\":true");
    if (said->inferred) {
        put_words(&t, ",\"inferred\":true,\"address\":");
        put_number(&t, (int64_t)p->low);
    }
    if (said->again) {
        put_words(&t, ",\"again\":");
        put_number(&t, said->before);
    }
    put_words(&t, ",\"at\":[");
    put_string(&t, said->file);
    put_words(&t, ",");
    put_number(&t, said->line);
    put_words(&t, ",");
    put_string(&t, said->function);
    put_words(&t, "]}");
    weft_write_ghost_record(PART, moment, NULL, 0, t.bytes, t.n);
    free(t.bytes);
}
