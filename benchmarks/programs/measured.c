/* Runs a command and adds a line to a file: seconds of processor time, and KiB of memory at most. Its own memory is
 * small: until it calls exec, a child counts what its parent had. measured FILE COMMAND... */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    pid_t child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    int status = 0;
    struct rusage used = { 0 };
    if (child < 0 || wait4(child, &status, 0, &used) < 0)
        return 1;
    FILE *out = fopen(argv[1], "a");
    if (!out)
        return 1;
    double seconds = (double) (used.ru_utime.tv_sec + used.ru_stime.tv_sec)
                     + 1e-6 * (double) (used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    fprintf(out, "%.3f %ld\n", seconds, used.ru_maxrss);
    fclose(out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
