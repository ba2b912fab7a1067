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

/* Append bytes to a text that grows; without memory the text stays as it is. */
static void append_bytes(struct text *text, const void *bytes, size_t n) {
    if (text->n + n > text->space) {
        size_t space = (text->n + n) * 2;
        char *larger = realloc(text->bytes, space);
        if (!larger) return;
        text->bytes = larger;
        text->space = space;
    }
    memcpy(text->bytes + text->n, bytes, n);
    text->n += n;
}

/* Append a string to a text. */
static void append_words(struct text *text, const char *words) { append_bytes(text, words, strlen(words)); }

/* Append a number to a text. */
static void append_number(struct text *text, int64_t number) {
    char digits[32];
    append_bytes(text, digits, (size_t)snprintf(digits, sizeof digits, "%lld", (long long)number));
}

/* Append `n` numbers to a text as a JSON list, behind the words `name`. */
static void append_list(struct text *text, const char *name, const int64_t *numbers, int n) {
    append_words(text, name);
    for (int k = 0; k < n; k++) {
        append_words(text, k ? "," : "[");
        append_number(text, numbers[k]);
    }
    append_words(text, n ? "]" : "[]");
}

/* Append a string to a text as JSON; what is not plain ASCII is left out. */
static void append_json_string(struct text *text, const char *string) {
    append_words(text, "\"");
    for (; string && *string; string++) {
        if (*string == '"' || *string == '\\') append_words(text, "\\");
        if (*string >= ' ' && *string < 127) append_bytes(text, string, 1);
    }
    append_words(text, "\"");
}

/* ---- the file ---- */
/* Make the file for this process's arrays with ghost cells, RUN/halo/HOST-PID.halo; return false if that fails. */
bool weft_open_ghost_log(void) {
    char path[PATH_MAX + 320], host[256] = "";
    gethostname(host, sizeof host - 1);
    snprintf(path, sizeof path, "%s/halo", weft_run_path);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/halo/%s-%d.halo", weft_run_path, host, (int)getpid());
    file = fopen(path, "wbxe"); /* in a program of Python its own arrays may have it */
    if (!file) {
        weft_record_access_note("uses of ghost cells, because Weft could not create the file for them");
        return false;
    }
    setvbuf(file, NULL, _IOFBF, PIECE);
    fwrite("WEFTHALO", 8, 1, file);
    return true;
}

/* Close the file of arrays with ghost cells. */
void weft_close_ghost_log(void) {
    if (file) fclose(file);
    file = NULL;
}

/* In a child of fork(): close the file without what the parent has not written yet. */
void weft_drop_ghost_log_in_child(void) {
    if (file) {
        __fpurge(file);
        fclose(file);
    }
    file = NULL;
}

/* Return whether the file is as large as it may become. */
bool weft_is_ghost_log_full(void) { return written > MOST_BYTES; }

/* Write a record into the file: its kind (halo_kinds.h), the number of calls before it, a head of `head_n` bytes and a
 * payload of `n` bytes. */
void weft_write_ghost_record(int kind, uint64_t moment, const void *head, size_t head_n, const void *payload,
                             size_t n) {
    struct {
        uint8_t kind, nothing[3];
        uint32_t bytes;
        uint64_t moment;
    } start = {.kind = (uint8_t)kind, .bytes = (uint32_t)(head_n + n), .moment = moment};
    if (!file) return;
    fwrite(&start, sizeof start, 1, file);
    if (head_n) fwrite(head, head_n, 1, file);
    if (n) fwrite(payload, n, 1, file);
    written += sizeof start + head_n + n;
}

/* ---- records ---- */
/* Write down a use, once for all its times: which line stores into which cells, and which ghosts it loads for them. */
static void write_use_definition(const struct group *group, uint32_t number) {
    struct text text = {0};
    append_words(&text, "{\"id\":");
    append_number(&text, number);
    append_words(&text, ",\"what\":\"store\",\"part\":");
    append_number(&text, group->array->number);
    append_words(&text, ",\"at\":");
    append_number(&text, weft_find_code_site(group->at));
    append_words(&text, group->copies ? ",\"computed\":false" : ",\"computed\":null");
    append_words(&text, ",\"cells\":{\"places\":[");
    for (uint32_t k = 0; k < group->places_n; k++) {
        if (k) append_words(&text, ",");
        append_number(&text, group->places[k]);
    }
    append_words(&text, "]},\"reads\":[");
    for (uint32_t line = 0; line < group->reads; line++) {
        append_words(&text, line ? ",{\"part\":" : "{\"part\":");
        append_number(&text, group->read[line].array->number);
        append_words(&text, ",\"at\":");
        append_number(&text, weft_find_code_site(group->read[line].at));
        append_words(&text, ",\"pairs\":[");
        bool first = true;
        for (uint32_t k = 0; k < group->pairs_n; k++) {
            if (group->pairs[k].read != line) continue;
            append_list(&text, first ? "" : ",", (int64_t[]){group->pairs[k].ghost, group->pairs[k].target}, 2);
            first = false;
        }
        append_words(&text, "]}");
    }
    append_words(&text, "]}");
    weft_write_ghost_record(USE, group->moment, NULL, 0, text.bytes, text.n);
    free(text.bytes);
}

/* Double the table of uses; return false without memory. */
static bool enlarge_use_table(void) {
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
        uint32_t index = (uint32_t)uses.hashes[k] & (space - 1);
        while (hashes[index]) index = (index + 1) & (space - 1);
        hashes[index] = uses.hashes[k];
        numbers[index] = uses.numbers[k];
    }
    free(uses.hashes);
    free(uses.numbers);
    uses.hashes = hashes;
    uses.numbers = numbers;
    uses.space = space;
    return true;
}

/* Return the number of a group's use, which is written down when it comes for the first time; UINT32_MAX without
 * memory. */
static uint32_t find_or_define_use_number(const struct group *group) {
    uint64_t hash = group->hash ? group->hash : 1;
    if (uses.n * 2 >= uses.space && !enlarge_use_table()) return UINT32_MAX;
    uint32_t index = (uint32_t)hash & (uses.space - 1);
    for (; uses.hashes[index]; index = (index + 1) & (uses.space - 1))
        if (uses.hashes[index] == hash) return uses.numbers[index];
    uses.hashes[index] = hash;
    uses.numbers[index] = uses.n++;
    write_use_definition(group, uses.numbers[index]);
    return uses.numbers[index];
}

/* Write down a group of stores: the number of its use, and how many looks at ghosts and groups of stores came before
 * each of its loads. */
void weft_write_store_group(const struct group *group) {
    struct {
        uint64_t moment;
        uint32_t looks, runs;
    } reads[READS];
    uint32_t head[2] = {find_or_define_use_number(group), group->reads};
    for (uint32_t line = 0; line < group->reads; line++) {
        reads[line].moment = group->moment;
        reads[line].looks = (uint32_t)group->read[line].looks;
        reads[line].runs = (uint32_t)group->read[line].runs;
    }
    if (head[0] != UINT32_MAX)
        weft_write_ghost_record(RUN, group->moment, head, sizeof head, reads, group->reads * sizeof *reads);
}

/* Return in how many dimensions a communicator may cut the array: those with ghosts, or all if none has any (as
 * weft.halo.global_arrays). */
static int count_cut_dimensions(const struct ghost_array *array) {
    int count = 0;
    for (int d = 0; d < array->dims; d++) count += array->halo[d] != 0;
    return count ? count : array->dims;
}

/* Read the grid of ranks of a communicator: that of a cartesian one, else all ranks in a row; `n` is 0 without a
 * communicator. */
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

/* Append the grid of ranks of an array as JSON. */
static void append_grid(struct text *text, const struct ghost_array *array, const struct declaration *declaration) {
    const struct grid *grid = &declaration->grid;
    int64_t lists[3][GRID];
    int count = grid->n, written_count = declaration->reversed && count
                                             ? count_cut_dimensions(array)
                                             : count; /* those that are not cut stand before, and have one rank */
    if (declaration->inferred && count == array->dims) written_count = count;
    for (int k = 0; k < written_count; k++) {
        int from = declaration->reversed ? written_count - 1 - k : k;
        lists[0][k] = from < count ? grid->dims[from] : 1;
        lists[1][k] = from < count ? grid->coordinates[from] : 0;
        lists[2][k] = from < count && grid->periods[from];
    }
    append_list(text, ",\"grid\":{\"dims\":", lists[0], written_count);
    append_list(text, ",\"coordinates\":", lists[1], written_count);
    append_list(text, ",\"periods\":", lists[2], written_count);
    append_words(text, "}");
}

/* Write the declaration of an array down, as JSON. */
void weft_write_array_declaration(const struct ghost_array *array, const struct declaration *declaration,
                                  uint64_t moment) {
    struct text text = {0};
    int64_t strides[DIMENSIONS], stride = (int64_t)array->size;
    for (int d = array->dims - 1; d >= 0; stride *= array->shape[d--]) strides[d] = stride;
    append_words(&text, "{\"id\":");
    append_number(&text, array->number);
    append_words(&text, ",\"of\":");
    append_json_string(&text, declaration->of);
    append_list(&text, ",\"shape\":", array->shape, array->dims);
    append_list(&text, ",\"strides\":", strides, array->dims);
    append_words(&text, ",\"halo\":");
    for (int d = 0; d < array->dims; d++)
        append_list(&text, d ? "," : "[", (int64_t[]){array->halo[d], array->halo[d]}, 2);
    if (declaration->lower) append_list(&text, "],\"lower\":", declaration->lower, array->dims);
    else append_words(&text, "],\"lower\":null");
    append_words(&text, ",\"whole\":null");
    if (declaration->periodic) append_list(&text, ",\"periodic\":", declaration->periodic, array->dims);
    else append_words(&text, ",\"periodic\":null");
    append_words(&text, ",\"lag\":");
    append_number(&text, declaration->lag);
    append_grid(&text, array, declaration);
    if (declaration->reversed) append_words(&text, ",\"reversed\":true");
    if (declaration->inferred) {
        append_words(&text, ",\"inferred\":true,\"address\":");
        append_number(&text, (int64_t)array->low);
    }
    if (declaration->again) {
        append_words(&text, ",\"again\":");
        append_number(&text, declaration->before);
    }
    append_words(&text, ",\"at\":[");
    append_json_string(&text, declaration->file);
    append_words(&text, ",");
    append_number(&text, declaration->line);
    append_words(&text, ",");
    append_json_string(&text, declaration->function);
    append_words(&text, "]}");
    weft_write_ghost_record(PART, moment, NULL, 0, text.bytes, text.n);
    free(text.bytes);
}
