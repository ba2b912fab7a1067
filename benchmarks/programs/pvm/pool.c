/* A master gives tasks of some work to whoever asks: `pool WORKERS TASKS STEPS`. */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    char own[4096];
    int workers = atoi(argv[1]), tasks = atoi(argv[2]), steps = atoi(argv[3]), tids[64], up = pvm_parent(), next = 0;
    double x = 1, sum = 0;
    if (up < 0) {
        if (!realpath(argv[0], own) || pvm_spawn(own, argv + 1, PvmTaskDefault, "", workers, tids) < workers) return 1;
        for (int left = tasks + workers; left; left--) {
            int bytes, tag, from;
            pvm_bufinfo(pvm_recv(-1, 1), &bytes, &tag, &from);
            pvm_upkdouble(&x, 1, 1);
            sum += x;
            pvm_initsend(PvmDataDefault);
            pvm_pkint(&next, 1, 1);
            pvm_send(from, next++ < tasks ? 2 : 3);
        }
        printf("%g\n", sum);
    } else {
        for (;;) {
            int bytes, tag, from;
            pvm_initsend(PvmDataDefault);
            pvm_pkdouble(&x, 1, 1);
            pvm_send(up, 1);
            pvm_bufinfo(pvm_recv(up, -1), &bytes, &tag, &from);
            if (tag == 3) break;
            for (int i = 0; i < steps; i++) x = x * 0.999999 + 1.0 / x;
        }
    }
    return pvm_exit();
}
