/* One process: says "ready", then each signal that it gets with the number of times it came; ends on SIGTERM. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t counts[65];
static void count(int number) { counts[number]++; }

int main(int argc, char **argv) {
    int numbers[] = {SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGQUIT, SIGCONT, SIGTERM};
    MPI_Init(&argc, &argv);
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) signal(numbers[i], count);
    puts("ready");
    fflush(stdout);
    while (!counts[SIGTERM]) usleep(1000);
    usleep(300000); /* a second copy would come by now */
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (counts[numbers[i]]) printf("signal %d: %d\n", numbers[i], (int)counts[numbers[i]]);
    MPI_Finalize();
    return 0;
}
