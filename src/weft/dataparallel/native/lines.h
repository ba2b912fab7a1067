/* What a runtime of `weft check` tells: lines of JSON, each built whole and then written. weft.dataparallel.runtime_output reads them.
 *
 *   {"modules":[{"base":94000,"size":8192,"path":"/home/me/a.out"}, ...],"rank":0}   the first line: program and libraries
 */
#ifndef WEFT_CHECK_LINES_H
#define WEFT_CHECK_LINES_H

#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct line {
    size_t size;
    char text[8192];
};

static int lines_file = -1;
static pid_t lines_owner; /* the process that opened it */

static inline bool lines_ours(void) { return lines_file >= 0 && getpid() == lines_owner; }

/* Append formatted text to a line; what does not fit is cut off. */
__attribute__((format(printf, 2, 3))) static void append_format(struct line *line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line->text + line->size, sizeof line->text - line->size, format, arguments);
    va_end(arguments);
    if (n > 0)
        line->size += (size_t)n < sizeof line->text - line->size ? (size_t)n : sizeof line->text - line->size - 1;
}

/* Begin a member `"name":` of a JSON object, or an element of a list (`name` NULL), with a comma if it is not the first
 * one. */
static void begin_member(struct line *line, const char *name) {
    char before = line->size ? line->text[line->size - 1] : '{';
    if (before != '{' && before != '[') append_format(line, ",");
    if (name) append_format(line, "\"%s\":", name);
}

static void put_number(struct line *line, const char *name, int64_t value) {
    begin_member(line, name);
    append_format(line, "%" PRId64, value);
}

static void put_truth(struct line *line, const char *name, bool value) {
    begin_member(line, name);
    append_format(line, value ? "true" : "false");
}

/* Append a JSON string, with quotes, backslashes and control characters escaped; a text that does not fit is cut
 * off. */
static void put_text(struct line *line, const char *name, const char *text) {
    begin_member(line, name);
    append_format(line, "\"");
    for (; *text && line->size + 8 < sizeof line->text; text++)
        if (*text == '"' || *text == '\\') append_format(line, "\\%c", *text);
        else if ((unsigned char)*text < 32) append_format(line, "\\u%04x", *text);
        else append_format(line, "%c", *text);
    append_format(line, "\"");
}

/* An object or a list, up to put_end. */
static void put_begin(struct line *line, const char *name, char bracket) {
    begin_member(line, name);
    append_format(line, "%c", bracket);
}

static void put_end(struct line *line, char bracket) { append_format(line, "%c", bracket); }

/* Append a JSON list of n numbers. */
static inline void put_numbers(struct line *line, const char *name, int n, const int64_t values[]) {
    put_begin(line, name, '[');
    for (int i = 0; i < n; i++) put_number(line, NULL, values[i]);
    put_end(line, ']');
}

/* Return a line that begins a JSON object; send_line ends and writes it. */
static struct line begin_json_line(void) {
    struct line line;
    line.size = 0;
    append_format(&line, "{");
    return line;
}

/* End the line's JSON object and write it to the findings file. */
static void send_line(struct line *line) {
    append_format(line, "}\n");
    for (size_t done = 0; done < line->size && lines_file >= 0;) {
        ssize_t n = write(lines_file, line->text + done, line->size - done);
        if (n <= 0) return;
        done += (size_t)n;
    }
}

/* Write a line that says why nothing can be checked, and which construct and variable are at fault (0: none). */
static void write_usage_error(const char *reason, int construct_id, int variable_id) {
    struct line line = begin_json_line();
    put_text(&line, "usage", reason);
    put_number(&line, "construct", construct_id);
    put_number(&line, "data", variable_id);
    send_line(&line);
}

/* Callback of dl_iterate_phdr: append a loaded library's base address, size and path to the JSON list in the line
 * (`line_pointer`). Returns 0 to continue. */
static int append_module(struct dl_phdr_info *info, size_t info_size, void *line_pointer) {
    (void)info_size;
    struct line *line = line_pointer;
    uintptr_t high = 0;
    char self[512];
    const char *path = info->dlpi_name;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz > high)
            high = info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    if (!*path) { /* the program */
        ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
        self[n > 0 ? n : 0] = 0;
        path = self;
    }
    if (line->size + 600 > sizeof line->text || *path != '/') return 0;
    put_begin(line, NULL, '{');
    put_number(line, "base", (int64_t)info->dlpi_addr);
    put_number(line, "size", (int64_t)high);
    put_text(line, "path", path);
    put_end(line, '}');
    return 0;
}

/* Return the process's rank as its launcher's environment variables say; 0 without a launcher. */
static int read_launcher_rank(void) {
    static const char *const names[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return atoi(value);
    }
    return 0;
}

/* Open the file that WEFT_INTERNAL_CHECK_FINDINGS names (%p in it stands for the process id) and write its first line,
 * the loaded modules. Return false if no file is named or it cannot be opened. */
static bool open_findings_file(void) {
    const char *named = getenv("WEFT_INTERNAL_CHECK_FINDINGS");
    if (!named || !*named) return false;
    char path[4096];
    const char *own = strstr(named, "%p");
    if (own) snprintf(path, sizeof path, "%.*s%d%s", (int)(own - named), named, (int)getpid(), own + 2);
    else snprintf(path, sizeof path, "%s", named);
    lines_file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (lines_file < 0) {
        fprintf(stderr, "weft: %s cannot be written, so nothing is checked\n", path);
        return false;
    }
    /* High, so that a program that counts its descriptors sees what it would see. */
    int higher = fcntl(lines_file, F_DUPFD_CLOEXEC, 200);
    if (higher >= 0) {
        close(lines_file);
        lines_file = higher;
    }
    lines_owner = getpid();
    unsetenv("WEFT_INTERNAL_CHECK_FINDINGS"); /* not for the program's children */
    struct line line = begin_json_line();
    put_begin(&line, "modules", '[');
    dl_iterate_phdr(append_module, &line);
    put_end(&line, ']');
    put_number(&line, "rank", read_launcher_rank());
    send_line(&line);
    return true;
}

/* Install `handler` for each fatal signal that still has its default action. The handler must end the process by the
 * same signal. */
static void install_fatal_signal_handler(void (*handler)(int, siginfo_t *, void *), int flags) {
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT, SIGHUP, SIGXCPU};
    struct sigaction ours = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
        struct sigaction old;
        if (sigaction(fatal[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) sigaction(fatal[i], &ours, NULL);
    }
}

#endif
