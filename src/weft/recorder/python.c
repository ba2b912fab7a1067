/* The Python line that a call comes from, read without the GIL and without touching a reference count.
 *
 * mpi4py gives up the GIL around most MPI calls, and taking it back here would change the program's timing and
 * could hang it. A thread's own frames do not change while it is inside a C function, so they can be read in place.
 * The offsets are those of CPython's headers (pycore_frame.h, cpython/pystate.h, cpython/code.h) of each version;
 * an interpreter that is not in the table is left alone, and its calls carry the native address only.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "endings.h"

struct layout {
    int minor;
    uint16_t thread_frame;  /* PyThreadState: cframe (<= 3.12) or current_frame */
    int16_t cframe_frame;   /* _PyCFrame.current_frame, -1: no _PyCFrame */
    uint16_t frame_code, frame_instruction, frame_previous;
    uint16_t code_file, code_name, code_lines, code_first_line, code_bytes;
    uint16_t text_ascii, text_wide; /* first byte of a compact unicode object's text */
};

static const struct layout layouts[] = {
    {11, 56, 8, 32, 56, 48, 112, 128, 136, 72, 184, 48, 72},
    {12, 56, 0, 0, 56, 8, 112, 128, 136, 68, 192, 40, 56},
    {13, 72, -1, 0, 56, 8, 112, 128, 136, 68, 200, 40, 56},
    {14, 72, -1, 0, 56, 8, 112, 128, 136, 68, 208, 40, 56},
};

static const struct layout *layout;
static void *(*this_thread)(void);
static void *code_type;
volatile int weft_python;

#define AT(type, base, offset) (*(type *)((uintptr_t)(base) + (offset)))
/* From 3.14 on the lowest bits of a frame's reference to its code say who counts it (pycore_stackref.h). */
#define CODE(reference) ((reference) & ~(uintptr_t)3)

/* Note in the record why its calls have no lines of Python. */
static void note_unknown_python(const char *version) {
    char words[192];
    uint8_t payload[sizeof words + 16];
    struct weft_text text = {.p = payload, .end = payload + sizeof payload};
    snprintf(
        words, sizeof words,
        "lines of Python, because Weft reads them only in ordinary builds of CPython 3.11 to 3.14, and this is %.60s",
        version);
    weft_write_bytes(&text, words, strlen(words));
    weft_write_definition(WEFT_DEF_NOTE, payload, (size_t)(text.p - payload));
}

/* Look for a Python interpreter in the process, once at MPI's initialisation, and define its version in the record. */
void weft_look_for_python(void) {
    if (weft_is_left_out(WEFT_LINES)) return;
    const char *(*version)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "Py_GetVersion");
    int (*initialized)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_IsInitialized");
    this_thread = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
    code_type = dlsym(RTLD_DEFAULT, "PyCode_Type");
    if (!version || !initialized || !this_thread || !code_type || !initialized()) return;
    const char *text = version();
    uint8_t payload[160];
    struct weft_text definition = {.p = payload, .end = payload + sizeof payload};
    weft_write_bytes(&definition, text, strnlen(text, 128));
    weft_write_definition(WEFT_DEF_PYTHON, payload, (size_t)(definition.p - payload));
    int major = 0, minor = 0;
    bool known = sscanf(text, "%d.%d", &major, &minor) == 2 && major == 3 && !strstr(text, "free-threading");
    for (size_t i = 0; known && i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].minor == minor) layout = &layouts[i];
    if (layout) weft_python = 1;
    else note_unknown_python(text);
}

/* Release Python's lock (the GIL) if this thread holds it, while it waits in a replay: mpi4py keeps it in some
 * calls, and the debugger's agent could not look at the rank. Return what weft_retake_python_lock needs, NULL if the
 * lock was not held. */
void *weft_release_python_lock(void) {
    int (*held)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Check");
    void *(*save)(void) = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyEval_SaveThread");
    return weft_python && held && save && this_thread && this_thread() && held() ? save() : NULL;
}

/* Take Python's lock again that weft_release_python_lock released; `thread`: what that returned. */
void weft_retake_python_lock(void *thread) {
    void (*restore)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "PyEval_RestoreThread");
    if (thread && restore) restore(thread);
}

/* Return whether a Python object is a code object, by its type. */
static bool is_code_object(uintptr_t object) { return object && AT(void *, object, sizeof(void *)) == code_type; }

/* ---- code objects ---- */
struct code {
    uintptr_t object, file, name, lines; /* identity: an address alone may be another object by now */
    int first_line;
    uint32_t id;
    bool hidden; /* not the user's: mpi4py's own Python, watched arrays, the import system */
};
enum { CODES = 8192 };
static struct code codes[CODES];
static uint32_t code_count;
static pthread_mutex_t codes_lock = PTHREAD_MUTEX_INITIALIZER;

/* Return whether a code object is the one of an entry: an address alone may be another object by now. */
static bool is_known_code(const struct code *entry, uintptr_t object) {
    return entry->object == object && entry->file == AT(uintptr_t, object, layout->code_file) &&
           entry->name == AT(uintptr_t, object, layout->code_name) &&
           entry->lines == AT(uintptr_t, object, layout->code_lines) &&
           entry->first_line == AT(int, object, layout->code_first_line);
}

/* Copy a Python str as UTF-8 to `utf8`, cut off at `size` bytes; return its length, 0 if it is no compact str.
 * PyASCIIObject: refcount, type, length, hash, state, then text; the state's bits are interned:2 kind:3 compact:1
 * ascii:1 in all versions of the table. */
static size_t copy_python_string(uintptr_t object, char *utf8, size_t size) {
    size_t n = 0;
    if (!object || size < 8) return 0;
    uint64_t length = AT(uint64_t, object, 16);
    uint32_t state = AT(uint32_t, object, 32);
    unsigned kind = state >> 2 & 7;
    if (!(state >> 5 & 1)) return 0;
    uintptr_t text = object + (state >> 6 & 1 ? layout->text_ascii : layout->text_wide);
    for (uint64_t i = 0; i < length && n + 4 < size; i++) {
        uint32_t c = kind == 1   ? AT(uint8_t, text, i)
                     : kind == 2 ? AT(uint16_t, text, 2 * i)
                                 : AT(uint32_t, text, 4 * i);
        if (c < 0x80) utf8[n++] = (char)c;
        else if (c < 0x800) {
            utf8[n++] = (char)(0xc0 | c >> 6);
            utf8[n++] = (char)(0x80 | (c & 63));
        } else if (c < 0x10000) {
            utf8[n++] = (char)(0xe0 | c >> 12);
            utf8[n++] = (char)(0x80 | (c >> 6 & 63));
            utf8[n++] = (char)(0x80 | (c & 63));
        } else {
            utf8[n++] = (char)(0xf0 | c >> 18);
            utf8[n++] = (char)(0x80 | (c >> 12 & 63));
            utf8[n++] = (char)(0x80 | (c >> 6 & 63));
            utf8[n++] = (char)(0x80 | (c & 63));
        }
    }
    utf8[n] = 0;
    return n;
}

/* Read file, name and lines of a code object into an entry, and define it in the record. Needs codes_lock. */
static WEFT_COLD struct code *define_python_code(uintptr_t object, struct code *entry) {
    char file[4096], name[1024];
    size_t file_length = copy_python_string(AT(uintptr_t, object, layout->code_file), file, sizeof file);
    size_t name_length = copy_python_string(AT(uintptr_t, object, layout->code_name), name, sizeof name);
    uintptr_t lines = AT(uintptr_t, object, layout->code_lines); /* bytes: refcount, type, length, hash, data */
    size_t lines_length = lines ? AT(size_t, lines, 16) : 0;
    if (lines_length > 1u << 20) lines_length = 1u << 20;
    entry->object = object;
    entry->file = AT(uintptr_t, object, layout->code_file);
    entry->name = AT(uintptr_t, object, layout->code_name);
    entry->lines = lines;
    entry->first_line = AT(int, object, layout->code_first_line);
    const char *library = strstr(file, "/lib/python3.");
    bool standard = library && !strstr(library, "/site-packages/") && !strstr(library, "/dist-packages/");
    entry->hidden = strstr(file, "/mpi4py/") || strstr(file, "/weft/halo/") || standard ||
                    !strncmp(file, "<frozen ", 8) ||
                    !strcmp(file, "<shim>"); /* 3.12 enters the interpreter from C through a code object of that name */
    size_t size = file_length + name_length + lines_length + 64;
    uint8_t *payload = malloc(size);
    if (!payload) return entry;
    struct weft_text text = {.p = payload, .end = payload + size};
    weft_write_unsigned(&text, ++code_count);
    weft_write_bytes(&text, file, file_length);
    weft_write_bytes(&text, name, name_length);
    weft_write_unsigned(&text, (uint64_t)entry->first_line);
    weft_write_bytes(&text, (const void *)(lines + 32), lines_length);
    weft_write_definition(WEFT_DEF_PYCODE, payload, (size_t)(text.p - payload));
    free(payload);
    __atomic_store_n(&entry->id, code_count, __ATOMIC_RELEASE);
    return entry;
}

/* Return the entry of a code object, defined now if it is new. Open addressing without deletion; when the table is full
 * the slot of the hash is used again, so a code may be defined twice, never wrongly. */
static struct code *find_or_define_python_code(uintptr_t object) {
    size_t index = (size_t)((object >> 4) * 0x9e3779b97f4a7c15u >> 40) % CODES;
    for (size_t i = 0; i < 16; i++) {
        struct code *entry = &codes[(index + i) % CODES];
        if (LIKELY(__atomic_load_n(&entry->id, __ATOMIC_ACQUIRE) && is_known_code(entry, object))) return entry;
        if (!entry->id) break;
    }
    pthread_mutex_lock(&codes_lock);
    struct code *entry = NULL;
    for (size_t i = 0; i < 16 && !entry; i++) {
        struct code *candidate = &codes[(index + i) % CODES];
        if (!candidate->id || is_known_code(candidate, object) || candidate->object == object) entry = candidate;
    }
    if (!entry) entry = &codes[index];
    if (!entry->id || !is_known_code(entry, object)) define_python_code(object, entry);
    pthread_mutex_unlock(&codes_lock);
    return entry;
}

/* Return the entry of the code of the next frame that runs Python code, from `*frame` on, which becomes that frame;
 * NULL at the end of the stack, or 64 frames down (`depth`). */
static const struct code *find_next_python_code(uintptr_t *frame, int *depth) {
    for (; *frame && *depth < 64; ++*depth, *frame = AT(uintptr_t, *frame, layout->frame_previous)) {
        uintptr_t object = CODE(AT(uintptr_t, *frame, layout->frame_code));
        if (is_code_object(object))
            return find_or_define_python_code(object); /* else the entry frame of a C call into the interpreter */
    }
    return NULL;
}

/* Return which instruction a frame executes, as its distance in bytes from the code's first one. */
static uint32_t find_instruction_offset(uintptr_t frame) {
    return (uint32_t)(AT(uintptr_t, frame, layout->frame_instruction) -
                      (CODE(AT(uintptr_t, frame, layout->frame_code)) + layout->code_bytes));
}

/* Return the id of the code of the innermost frame that is the user's, or of the innermost frame at all; 0 where the
 * thread runs no Python. Set `offset` to the instruction, and `callers` to the user's frames that called it. */
uint32_t weft_find_python_line(uint32_t *offset, struct weft_python_callers *callers) {
    uintptr_t state = (uintptr_t)this_thread();
    callers->n = 0;
    if (!state) return 0;
    uintptr_t frame = AT(uintptr_t, state, layout->thread_frame);
    if (layout->cframe_frame >= 0 && frame) frame = AT(uintptr_t, frame, layout->cframe_frame);
    uint32_t found = 0;
    int depth = 0;
    bool is_users = false;
    for (const struct code *code; callers->n < WEFT_CALLERS && (code = find_next_python_code(&frame, &depth));
         depth++, frame = AT(uintptr_t, frame, layout->frame_previous)) {
        if (found && code->hidden) continue;
        if (is_users) {
            callers->code[callers->n] = code->id;
            callers->offset[callers->n++] = find_instruction_offset(frame);
            continue;
        }
        found = code->id;
        *offset = find_instruction_offset(frame);
        is_users = !code->hidden;
    }
    return found;
}

/* ---- where a thread is, for what is reported of the end: nothing is believed to be there ---- */

/* Read the code and instruction of this thread's Python frames, innermost first, at most `n`; return how many. Memory
 * that is not there ends the stack: it may run in a signal handler. */
uint32_t weft_read_python_stack(struct weft_python_place *places, uint32_t n) {
    uintptr_t state = (uintptr_t)this_thread(), frame = 0, next;
    uint32_t found = 0;
    if (!state || !weft_copy_if_readable(&frame, state + layout->thread_frame, sizeof frame)) return 0;
    if (layout->cframe_frame >= 0 && frame &&
        !weft_copy_if_readable(&frame, frame + (uintptr_t)layout->cframe_frame, sizeof frame))
        return 0;
    for (int depth = 0; frame && found < n && depth < 1024; depth++, frame = next) {
        uintptr_t code, instruction, type;
        if (!weft_copy_if_readable(&next, frame + layout->frame_previous, sizeof next) ||
            !weft_copy_if_readable(&code, frame + layout->frame_code, sizeof code))
            break;
        code = CODE(code);
        if (!weft_copy_if_readable(&type, code + sizeof type, sizeof type) || type != (uintptr_t)code_type) continue;
        if (!weft_copy_if_readable(&instruction, frame + layout->frame_instruction, sizeof instruction) ||
            instruction + 2 < code + layout->code_bytes)
            continue;
        uintptr_t first = code + layout->code_bytes;
        places[found++] = (struct weft_python_place){code, instruction > first ? (uint32_t)(instruction - first) : 0};
    }
    return found;
}

/* Copy a Python str as copy_python_string does, from memory that may not be there: its head and its text are copied
 * first. At most 256 characters. */
static size_t copy_peeked_string(uintptr_t object, char *utf8, size_t size) {
    struct {
        uintptr_t head[4];
        uint32_t state;
    } head;
    uint8_t copy[96 + 4 * 256];
    size_t whole, n = 0;
    if (!object || !weft_copy_if_readable(&head, object, sizeof head)) return 0;
    size_t start = head.state >> 6 & 1 ? layout->text_ascii : layout->text_wide, kind = head.state >> 2 & 7;
    whole = kind * head.head[2];
    if (whole > 4 * 256) whole = 4 * 256;
    if (kind < 1 || kind > 4 || start + whole > sizeof copy || !weft_copy_if_readable(copy, object, start + whole))
        return 0;
    ((uint64_t *)copy)[2] = whole / kind;
    n = copy_python_string((uintptr_t)copy, utf8, size);
    return n;
}

struct line_table {
    uintptr_t at, end, window;
    uint8_t copy[256];
};

/* Return the next byte of a table of lines, -1 at its end or if it cannot be read. */
static int read_table_byte(struct line_table *table) {
    if (table->at >= table->end) return -1;
    if (!table->window || table->at - table->window >= sizeof table->copy) {
        size_t left = table->end - table->at;
        if (!weft_copy_if_readable(table->copy, table->at, left < sizeof table->copy ? left : sizeof table->copy))
            return -1;
        table->window = table->at;
    }
    return table->copy[table->at++ - table->window];
}

/* Return the next number of a table of lines, which has six bits in each byte. */
static int read_table_number(struct line_table *table) {
    int value = 0, shift = 0, byte;
    do {
        if ((byte = read_table_byte(table)) < 0) return 0;
        value |= (byte & 63) << shift;
        shift += 6;
    } while (byte & 64 && shift < 30);
    return value;
}

/* Return the line of an instruction of a code object, 0 for none (CPython's Objects/locations.md;
 * weft.trace.sites.line_of_instruction reads the same). */
static int find_line_of_instruction(uintptr_t code, uint32_t instruction) {
    uintptr_t lines = 0;
    size_t length = 0;
    int line = 0;
    uint32_t end = 0;
    if (!weft_copy_if_readable(&lines, code + layout->code_lines, sizeof lines) ||
        !weft_copy_if_readable(&length, lines + 16, sizeof length) ||
        !weft_copy_if_readable(&line, code + layout->code_first_line, sizeof line) || length > 1u << 20)
        return 0;
    struct line_table table = {.at = lines + 32, .end = lines + 32 + length};
    for (int head; (head = read_table_byte(&table)) >= 0;) {
        int kind = head >> 3 & 15;
        if (kind == 13 || kind == 14) {
            int delta = read_table_number(&table);
            line += delta & 1 ? -(delta >> 1) : delta >> 1;
            for (int i = 0; kind == 14 && i < 3; i++) read_table_number(&table);
        } else if (kind >= 10 && kind < 13) {
            line += kind - 10;
            table.at += 2;
        } else if (kind < 10) table.at++;
        end += 2u * ((unsigned)(head & 7) + 1);
        if (instruction < end) return kind == 15 || line < 0 ? 0 : line;
    }
    return 0;
}

/* Write file, line and function of one frame; return false for a frame that nobody wrote, or that cannot be read. */
bool weft_write_python_frame(struct weft_text *text, const struct weft_python_place *place) {
    char file[1024], name[512];
    uintptr_t file_object = 0, name_object = 0;
    if (!weft_copy_if_readable(&file_object, place->code + layout->code_file, sizeof file_object) ||
        !weft_copy_if_readable(&name_object, place->code + layout->code_name, sizeof name_object))
        return false;
    size_t file_length = copy_peeked_string(file_object, file, sizeof file),
           name_length = copy_peeked_string(name_object, name, sizeof name);
    if (!file_length || !strcmp(file, "<shim>")) return false;
    weft_write_bytes(text, file, file_length);
    weft_write_unsigned(text, (uint64_t)find_line_of_instruction(place->code, place->instruction));
    weft_write_bytes(text, name, name_length);
    return !text->overflow;
}
