/* A master and three workers that go on for ever; `busy notify`: one of them is ended, and the master hears of it;
 * `busy notify late`: it is ended in its pvm_recv. */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char own[4096];
    int parent = pvm_parent(), tids[3], who, i;
    if (parent >= 0)
        for (;;) {
            int buffer = pvm_recv(parent, -1), bytes, tag, from;
            pvm_bufinfo(buffer, &bytes, &tag, &from);
            if (tag == 3) return pvm_exit();
            pvm_initsend(PvmDataDefault);
            pvm_send(parent, 2);
        }
    if (!realpath(argv[0], own) || pvm_spawn(own, NULL, PvmTaskDefault, "", 3, tids) < 3) return 1;
    if (argc > 1) {
        pvm_notify(PvmTaskExit, 9, 3, tids);
        if (argc > 2) usleep(300000); /* all wait by then */
        pvm_kill(tids[1]);
        pvm_recv(-1, 9);
        pvm_upkint(&who, 1, 1);
        printf("the second is gone: %s\n", who == tids[1] ? "yes" : "no");
        pvm_initsend(PvmDataDefault);
        pvm_send(tids[0], 3);
        pvm_send(tids[2], 3);
        pvm_recv(-1, 9);
        pvm_recv(-1, 9);
        return pvm_exit();
    }
    for (;;) {
        pvm_initsend(PvmDataDefault);
        for (i = 0; i < 3; i++) pvm_send(tids[i], 1);
        for (i = 0; i < 3; i++) pvm_recv(-1, 2);
        usleep(1000);
    }
}
