/* The first test program of dbxR-II: `ring TASKS ROUNDS`. A message goes round all tasks. Prints three times in ms: until PVM
 * is there, of the spawn, of the rounds. */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    char own[4096];
    int tasks = atoi(argv[1]), rounds = atoi(argv[2]), tids[64], me = 0, value = 0;
    double begin = now(), enrolled, spawned, end;
    tids[0] = pvm_mytid();
    enrolled = now();
    if (pvm_parent() < 0) {
        if (!realpath(argv[0], own) || pvm_spawn(own, argv + 1, PvmTaskDefault, "", tasks - 1, tids + 1) < tasks - 1) return 1;
        pvm_initsend(PvmDataDefault);
        pvm_pkint(tids, tasks, 1);
        pvm_mcast(tids + 1, tasks - 1, 1);
    } else {
        pvm_recv(pvm_parent(), 1);
        int self = tids[0];
        pvm_upkint(tids, tasks, 1);
        while (tids[me] != self) me++;
    }
    spawned = now();
    for (int round = 0; round < rounds; round++) {
        if (me) pvm_recv(-1, 2), pvm_upkint(&value, 1, 1);
        value++;
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&value, 1, 1);
        pvm_send(tids[(me + 1) % tasks], 2);
        if (!me) pvm_recv(-1, 2), pvm_upkint(&value, 1, 1);
    }
    end = now();
    if (!me) printf("%.3f %.3f %.3f\n", enrolled - begin, spawned - enrolled, end - spawned);
    return pvm_exit();
}
