/* Tasks of a group: `group N [missing]`. With `missing` one of them does not come to the last barrier, and ends
 * when the others are in it: a group that was frozen is no more when a member leaves, and who comes later is told so. */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char own[4096], *given[] = {argv[1], argc > 2 ? argv[2] : NULL, NULL};
    int n = atoi(argv[1]), tids[32], all[32], me, value;
    if (pvm_parent() < 0 && realpath(argv[0], own) && pvm_spawn(own, given, PvmTaskDefault, "", n - 1, tids) < n - 1) return 1;
    me = pvm_joingroup("team");
    pvm_freezegroup("team", n);
    value = me + 1;
    pvm_reduce(PvmSum, &value, 1, PVM_INT, 5, "team", 0);
    if (me == 0) printf("sum %d\n", value);
    fflush(stdout);
    if (me == 1) {
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&value, 1, 1);
        pvm_bcast("team", 7);
    } else {
        pvm_recv(-1, 7);
        pvm_upkint(&value, 1, 1);
    }
    pvm_gather(all, &me, 1, PVM_INT, 8, "team", 0);
    if (argc < 3 || me != 2) pvm_barrier("team", n);
    else sleep(2);
    return pvm_exit();
}
