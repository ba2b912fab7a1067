/* held FILE PROGRAM ARGS: runs a program and writes the most memory that it held (KiB) and its processor time (us).
 *
 * A process starts with its parent's mark of the most memory, which exec does not take back: this parent is small.
 */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static long microseconds(struct timeval t) { return t.tv_sec * 1000000L + t.tv_usec; }

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    int status;
    struct rusage used;
    if (child < 0 || wait4(child, &status, 0, &used) < 0) return 2;
    FILE *to = fopen(argv[1], "w");
    if (!to) return 2;
    fprintf(to, "%ld %ld\n", used.ru_maxrss, microseconds(used.ru_utime) + microseconds(used.ru_stime));
    fclose(to);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
