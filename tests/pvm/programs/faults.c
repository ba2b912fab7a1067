/* One fault each, `faults WHAT`, and all of this without a fault, `faults right`. */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong;

static void wait_for_each_other(int parent, int child) {
    if (child) {
        if (!wrong) pvm_initsend(PvmDataDefault), pvm_send(child, 2);
        pvm_recv(child, 1);
    } else {
        pvm_recv(parent, 2);
        pvm_initsend(PvmDataDefault);
        pvm_send(parent, 1);
    }
}

static void pack(int parent, int child) {
    int four[4] = {1, 2, 3, 4};
    double one = 1;
    char text[8];
    if (child) {
        pvm_initsend(PvmDataDefault);
        pvm_pkint(four, 4, 1);
        pvm_pkdouble(&one, 1, 1);
        pvm_pkstr("hello");
        pvm_send(child, 1);
        pvm_send(child, 2);
    } else {
        float other[4];
        pvm_recv(parent, 1);
        pvm_upkint(four, 2, 1);
        pvm_upkint(four + 2, 2, 1);
        pvm_upkdouble(&one, 1, 1);
        pvm_upkstr(text);
        pvm_recv(parent, 2);
        if (wrong) pvm_upkfloat(other, 4, 1);
        else pvm_upkint(four, 3, 1);
    }
}

static void no_more(int parent, int child) {
    int two[2] = {1, 2};
    if (child) {
        pvm_initsend(PvmDataRaw);
        pvm_pkint(two, 2, 1);
        pvm_send(child, 1);
    } else {
        pvm_recv(parent, 1);
        pvm_upkint(two, 2, 1);
        if (wrong) pvm_upkint(two, 1, 1);
    }
}

static void lost(int parent, int child) {
    if (child) {
        pvm_initsend(PvmDataDefault);
        pvm_send(child, 1);
        if (wrong) pvm_send(child, 9);
    } else pvm_recv(parent, 1);
}

static void buffers(int parent, int child) {
    int buffer = pvm_mkbuf(PvmDataDefault);
    if (!wrong) pvm_freebuf(buffer);
    if (child) pvm_initsend(PvmDataDefault), pvm_send(child, 1);
    else pvm_recv(parent, 1);
}

static void refused(int parent, int child) {
    int nobody[2];
    if (!child) return;
    (void)parent;
    if (wrong) pvm_spawn("no-such-program", NULL, PvmTaskDefault, "", 2, nobody);
    if (wrong) pvm_freebuf(9999);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*does)(int, int);
    } all[] = {{"wait", wait_for_each_other}, {"pack", pack},       {"more", no_more},
               {"lost", lost},                {"buffers", buffers}, {"refused", refused}};
    char own[4096];
    int parent = pvm_parent(), child = 0;
    wrong = strcmp(argv[1], "right");
    if (parent < 0 && (!realpath(argv[0], own) || pvm_spawn(own, argv + 1, PvmTaskDefault, "", 1, &child) < 1)) return 1;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!wrong || !strcmp(argv[1], all[i].name)) all[i].does(parent, child);
    return pvm_exit();
}
