/* Programs whose runs differ, `races WHAT`; each prints in which order things came.
 *   pool      a master hands out work to whoever asks (pvm_recv of any task), its first words by pvm_mcast
 *   farm      it looks for messages without waiting (pvm_nrecv), and waits for a little while (pvm_trecv)
 *   probes    it looks whether one is there (pvm_probe) before it takes it
 *   team      tasks join a group in any order, and tell which number they got
 *   notices   a task that works is killed, and the daemon says so between the others' messages
 *   parents   two tasks spawn two tasks each, at once
 *   lingers   does not vary: a task works on when it has left PVM, and the others have ended
 *   quits     does not vary: its tasks end without pvm_exit, the master after it unpacked what it got
 */
#include <pvm3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { WORKERS = 3, JOBS = 20, ALL = 2 * JOBS + WORKERS, ASK = 1, WORK = 2, DONE = 3, STOP = 4, GONE = 5 };

static int tids[WORKERS], came[4096], count;
static char own[4096], *given[] = {NULL, NULL, NULL};

static void start(const char *as, int n, int *where) {
    given[1] = (char *)as;
    if (pvm_spawn(own, given, PvmTaskDefault, "", n, where) < n) exit(1);
}

static void saw(int what) {
    if (count < 4096) came[count++] = what;
}

static void tell(const char *what) {
    printf("%s:", what);
    for (int i = 0; i < count; i++) printf(" %d", came[i]);
    printf("\n");
}

static int which(int tid) {
    for (int i = 0; i < WORKERS; i++)
        if (tids[i] == tid) return i;
    return -1;
}

static int from(int buffer, int *tag) {
    int bytes, tid;
    pvm_bufinfo(buffer, &bytes, tag, &tid);
    return tid;
}

static void give(int tid, int tag, int value) {
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&value, 1, 1);
    pvm_send(tid, tag);
}

static void work(int n) {
    struct timeval now;
    gettimeofday(&now, NULL);
    usleep((unsigned)((now.tv_usec * 7 + n * 131 + getpid() * 37) % 700));
}

/* ---- master and workers ---- */
static void ask(int parent) {
    int tag, job, words;
    pvm_recv(parent, GONE); /* what all are told first */
    pvm_upkint(&words, 1, 1);
    for (;;) {
        give(parent, ASK, words);
        from(pvm_recv(parent, -1), &tag);
        if (tag == STOP) break;
        pvm_upkint(&job, 1, 1);
        work(job);
        give(parent, DONE, job);
    }
}

static void begin(void) {
    int words = 42;
    start("ask", WORKERS, tids);
    pvm_initsend(PvmDataDefault);
    pvm_pkint(&words, 1, 1);
    pvm_mcast(tids, WORKERS, GONE);
}

static void answer(int buffer) {
    static int next;
    int tag, tid = from(buffer, &tag);
    saw(which(tid) * 10 + tag);
    if (tag == ASK && next < JOBS) give(tid, WORK, next++);
    else if (tag == ASK) give(tid, STOP, 0);
}

static void pool(void) {
    begin();
    while (count < ALL) answer(pvm_recv(-1, -1));
    tell("pool");
}

static void farm(void) {
    int misses = 0, buffer;
    begin();
    while (count < ALL) {
        struct timeval little = {0, 300};
        if ((buffer = pvm_nrecv(-1, ASK)) > 0 || (buffer = pvm_trecv(-1, DONE, &little)) > 0) answer(buffer);
        else misses++;
    }
    printf("misses %d\n", misses);
    tell("farm");
}

static void probes(void) {
    int misses = 0, tag;
    begin();
    while (count < ALL) {
        int there = pvm_probe(-1, -1);
        if (there > 0) {
            int tid = from(there, &tag);
            answer(pvm_recv(tid, tag));
        } else {
            misses++;
            usleep(50);
        }
    }
    printf("misses %d\n", misses);
    tell("probes");
}

/* ---- groups ---- */
static void team(void) {
    int me, others[WORKERS + 1], all = WORKERS + 1;
    if (pvm_parent() < 0) start("team", WORKERS, tids);
    else work(1);
    me = pvm_joingroup("team");
    pvm_barrier("team", all);
    if (me == 0) {
        for (int i = 1; i < all; i++) {
            pvm_recv(-1, 7);
            pvm_upkint(&others[i], 1, 1);
            saw(others[i]);
        }
        tell("came");
    } else {
        work(me);
        pvm_initsend(PvmDataDefault);
        pvm_pkint(&me, 1, 1);
        pvm_send(pvm_gettid("team", 0), 7);
    }
    printf("number %d\n", me);
    pvm_barrier("team", all);
    pvm_lvgroup("team");
}

/* ---- notices ---- */
static void chatter(int parent) {
    for (int i = 0; pvm_nrecv(parent, STOP) <= 0; i++) {
        work(i);
        give(parent, DONE, i);
    }
}

static void notices(void) {
    int tag, gone = 0, who, killed = 0;
    start("chatter", WORKERS, tids);
    pvm_notify(PvmTaskExit, GONE, WORKERS, tids);
    while (gone < WORKERS) {
        int tid = from(pvm_recv(-1, -1), &tag);
        if (tag == GONE) {
            pvm_upkint(&who, 1, 1);
            saw(100 + which(who));
            if (!gone++)
                for (int i = 0; i < WORKERS; i++)
                    if (tids[i] != who) give(tids[i], STOP, 0);
        } else saw(which(tid));
        if (count == 12 && !killed++) pvm_kill(tids[came[11] % WORKERS]);
    }
    tell("notices");
}

/* ---- two who spawn at once ---- */
static void parent(int first) {
    int two[2], value, tag;
    start("child", 2, two);
    for (int i = 0; i < 2; i++) {
        int tid = from(pvm_recv(-1, DONE), &tag);
        pvm_upkint(&value, 1, 1);
        saw(tid == two[1]);
    }
    tell("children");
    give(first, DONE, came[0]);
}

static void parents(void) {
    int tag;
    start("parent", 2, tids);
    for (int i = 0; i < 2; i++) saw(which(from(pvm_recv(-1, DONE), &tag)));
    tell("parents");
}

static void lingers(int parent) {
    const char *made = getenv("LINGERS");
    FILE *file;
    if (parent < 0) {
        start("lingers", 1, tids);
        pvm_recv(tids[0], DONE);
        return;
    }
    give(parent, DONE, 1);
    pvm_exit();
    sleep(1);
    if (made && (file = fopen(made, "w"))) fclose(file);
    exit(0);
}

static void quits(int parent) {
    int value = 1;
    if (parent >= 0) give(parent, DONE, value);
    else {
        start("quits", 1, tids);
        pvm_recv(tids[0], DONE);
        pvm_upkint(&value, 1, 1);
        printf("got %d\n", value);
    }
    fflush(stdout);
    exit(0);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "pool", *as = argc > 2 ? argv[2] : what;
    int up = pvm_parent();
    if (!realpath(argv[0], own)) return 1;
    given[0] = argv[1];
    if (!strcmp(as, "ask")) ask(up);
    else if (!strcmp(as, "chatter")) chatter(up);
    else if (!strcmp(as, "parent")) parent(up);
    else if (!strcmp(as, "child")) work(1), give(up, DONE, 1);
    else if (!strcmp(as, "pool")) pool();
    else if (!strcmp(as, "farm")) farm();
    else if (!strcmp(as, "probes")) probes();
    else if (!strcmp(as, "team")) team();
    else if (!strcmp(as, "notices")) notices();
    else if (!strcmp(as, "parents")) parents();
    else if (!strcmp(as, "quits")) quits(up);
    else if (!strcmp(as, "lingers")) lingers(up);
    else return 2;
    return pvm_exit();
}
