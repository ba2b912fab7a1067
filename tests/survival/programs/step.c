/* Runs a program instruction by instruction between its first two SIGSTOPs, and keeps its record and its log as they
 * are after each instruction that changed them: what a SIGKILL at that moment would leave.
 *
 *   step RECORDS LOGS OUT PROGRAM ARGUMENTS     writes OUT/<n>.weft and OUT/<n>.log, prints how many instructions
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 1 << 22, LOG_BYTES = 1 << 16 };

struct watched { int fd; size_t most, size; uint8_t *bytes, *before; };

static struct watched watch(const char *folder, size_t most) {
    char path[4096] = "";
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.') snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    struct watched w = {.fd = open(path, O_RDONLY), .most = most, .before = calloc(1, most)};
    w.bytes = mmap(NULL, most, PROT_READ, MAP_SHARED, w.fd, 0);
    if (w.fd < 0 || w.bytes == MAP_FAILED || !w.before) exit(93);
    return w;
}

static int changed(struct watched *w) {
    struct stat status;
    fstat(w->fd, &status);
    size_t size = (size_t)status.st_size < w->most ? (size_t)status.st_size : w->most;
    if (size == w->size && !memcmp(w->bytes, w->before, size)) return 0;
    memcpy(w->before, w->bytes, size);
    w->size = size;
    return 1;
}

static void keep(const struct watched *w, const char *folder, long n, const char *ending) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%ld.%s", folder, n, ending);
    FILE *file = fopen(path, "w");
    if (!file || fwrite(w->before, 1, w->size, file) != w->size || fclose(file)) exit(94);
}

int main(int argc, char **argv) {
    pid_t child = argc > 4 ? fork() : -1;
    if (child < 0) return 2;
    if (!child) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        const char *preload = getenv("STEP_PRELOAD");
        if (preload) setenv("LD_PRELOAD", preload, 1);
        execvp(argv[4], argv + 4);
        _exit(95);
    }
    struct watched record, log;
    long instructions = 0, kept = 0;
    int status, stepping = 0;
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        int sent = WSTOPSIG(status);
        if (sent == SIGSTOP && stepping) break;
        if (sent == SIGSTOP) {
            stepping = 1;
            record = watch(argv[1], MOST);
            log = watch(argv[2], LOG_BYTES);
        }
        if (stepping) {
            instructions++;
            if (changed(&record) | changed(&log)) {
                keep(&record, argv[3], kept, "weft");
                keep(&log, argv[3], kept++, "log");
            }
        }
        int passed_on = sent == SIGTRAP || sent == SIGSTOP ? 0 : sent;
        ptrace(stepping ? PTRACE_SINGLESTEP : PTRACE_CONT, child, NULL, (void *)(intptr_t)passed_on);
    }
    kill(child, SIGKILL);
    printf("%ld\n", instructions);
    return stepping ? 0 : 1;
}
