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

__attribute__((format(printf, 2, 3))) static void put(struct line *l, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(l->text + l->size, sizeof l->text - l->size, format, arguments);
    va_end(arguments);
    if (n > 0) l->size += (size_t)n < sizeof l->text - l->size ? (size_t)n : sizeof l->text - l->size - 1;
}

/* Of a member of an object; NULL: of an element of a list. */
static void put_name(struct line *l, const char *name) {
    char before = l->size ? l->text[l->size - 1] : '{';
    if (before != '{' && before != '[') put(l, ",");
    if (name) put(l, "\"%s\":", name);
}

static void put_number(struct line *l, const char *name, int64_t value) {
    put_name(l, name);
    put(l, "%" PRId64, value);
}

static void put_truth(struct line *l, const char *name, bool value) {
    put_name(l, name);
    put(l, value ? "true" : "false");
}

static void put_text(struct line *l, const char *name, const char *text) {
    put_name(l, name);
    put(l, "\"");
    for (; *text && l->size + 8 < sizeof l->text; text++)
        if (*text == '"' || *text == '\\') put(l, "\\%c", *text);
        else if ((unsigned char)*text < 32) put(l, "\\u%04x", *text);
        else put(l, "%c", *text);
    put(l, "\"");
}

/* An object or a list, up to put_end. */
static void put_begin(struct line *l, const char *name, char bracket) {
    put_name(l, name);
    put(l, "%c", bracket);
}

static void put_end(struct line *l, char bracket) { put(l, "%c", bracket); }

static inline void put_numbers(struct line *l, const char *name, int n, const int64_t values[]) {
    put_begin(l, name, '[');
    for (int i = 0; i < n; i++) put_number(l, NULL, values[i]);
    put_end(l, ']');
}

/* A line of its own, up to send_line. */
static struct line new_line(void) {
    struct line l;
    l.size = 0;
    put(&l, "{");
    return l;
}

static void send_line(struct line *l) {
    put(l, "}\n");
    for (size_t done = 0; done < l->size && lines_file >= 0;) {
        ssize_t n = write(lines_file, l->text + done, l->size - done);
        if (n <= 0) return;
        done += (size_t)n;
    }
}

/* Why nothing can be checked; `construct` and `data`: whose fault it is, 0 where it is nobody's. */
static void tell_usage(const char *why, int construct, int data) {
    struct line l = new_line();
    put_text(&l, "usage", why);
    put_number(&l, "construct", construct);
    put_number(&l, "data", data);
    send_line(&l);
}

static int put_module(struct dl_phdr_info *info, size_t size, void *p) {
    (void)size;
    struct line *l = p;
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
    if (l->size + 600 > sizeof l->text || *path != '/') return 0;
    put_begin(l, NULL, '{');
    put_number(l, "base", (int64_t)info->dlpi_addr);
    put_number(l, "size", (int64_t)high);
    put_text(l, "path", path);
    put_end(l, '}');
    return 0;
}

/* As the launcher that started the process says; 0 where none did. */
static int launched_rank(void) {
    static const char *const names[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) return atoi(value);
    }
    return 0;
}

/* Whether there is a file to tell in; %p in its name is the process: several have a file each. */
static bool lines_open(void) {
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
    struct line l = new_line();
    put_begin(&l, "modules", '[');
    dl_iterate_phdr(put_module, &l);
    put_end(&l, ']');
    put_number(&l, "rank", launched_rank());
    send_line(&l);
    return true;
}

/* `died`, which is to end the process by the same signal, for every signal that would end the program. */
static void watch_ends(void (*died)(int, siginfo_t *, void *), int flags) {
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGINT, SIGHUP, SIGXCPU};
    struct sigaction ours = {.sa_sigaction = died, .sa_flags = SA_SIGINFO | flags};
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
        struct sigaction old;
        if (sigaction(fatal[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) sigaction(fatal[i], &ours, NULL);
    }
}

#endif
