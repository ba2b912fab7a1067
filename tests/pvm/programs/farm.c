/* A master and its workers: `farm N JOBS [order]`. Workers ask, the master looks now and then (pvm_nrecv) and waits for a
 * little while (pvm_trecv). What is printed depends on the order in which answers come. */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

enum { ASK = 1, WORK = 2, DONE = 3, STOP = 4 };

static void master(const char *own, int workers, int jobs) {
    int tids[32], next = 0, open = workers, misses = 0, value;
    long sum = 0;
    if (pvm_spawn((char *)own, NULL, PvmTaskDefault, "", workers, tids) < workers) exit(1);
    while (open) {
        int buffer = pvm_nrecv(-1, ASK), bytes, tag, from;
        if (!buffer) {
            struct timeval limit = {0, 1000};
            misses++;
            if (pvm_trecv(-1, DONE, &limit) > 0 && pvm_upkint(&value, 1, 1) >= 0) sum = sum * 31 % 1000003 + value;
            continue;
        }
        pvm_bufinfo(buffer, &bytes, &tag, &from);
        pvm_initsend(PvmDataDefault);
        if (next < jobs) {
            pvm_pkint(&next, 1, 1);
            next++;
            pvm_send(from, WORK);
        } else {
            pvm_send(from, STOP);
            open--;
        }
    }
    while (pvm_nrecv(-1, DONE) > 0 && pvm_upkint(&value, 1, 1) >= 0) sum = sum * 31 % 1000003 + value;
    printf("sum %ld\n", sum);
}

static void worker(int parent) {
    for (;;) {
        int buffer, bytes, tag, from, job;
        pvm_initsend(PvmDataDefault);
        pvm_send(parent, ASK);
        buffer = pvm_recv(parent, -1);
        pvm_bufinfo(buffer, &bytes, &tag, &from);
        if (tag == STOP) break;
        pvm_upkint(&job, 1, 1);
        usleep((unsigned)(getpid() * 37 + job * 101) % 900);
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&job, 1, 1);
        pvm_send(parent, DONE);
    }
    printf("worker is done\n");
}

int main(int argc, char **argv) {
    char own[4096];
    int parent = pvm_parent();
    if (parent >= 0) worker(parent);
    else if (realpath(argv[0], own)) master(own, argc > 1 ? atoi(argv[1]) : 3, argc > 2 ? atoi(argv[2]) : 12);
    return pvm_exit();
}
