// As cilk2c writes it: a procedure in its fast and its slow clone. Its second child's return finds its frame stolen.
#include <cilk-cilk2c.h>
#include <stddef.h>
#include <stdio.h>

struct frame {
    struct header header;
    struct weft_cilk_task weft;
    struct {
        int n;
    } scope0;
};
static struct frame *left;
static struct weft_cilk_worker *second = &weft_tasks.worker[1];

static void told(const char *when) {
    struct weft_cilk_worker *w = &weft_tasks.worker[0];
    printf("%s: %lu begun, %lu ended, top %lu; thief: top %lu, %lu taken\n", when, w->begun, w->ended, w->top->id,
           second->top ? second->top->id : 0, second->taken);
}

static int child(struct state *_cilk_ws, int n) {
    struct frame *_cilk_frame;
    CILK2C_INIT_FRAME(_cilk_frame, sizeof(struct frame), 0);
    if (n == 2) told("in the child");
    CILK2C_BEFORE_RETURN_FAST();
    return n;
}

static int parent(struct state *_cilk_ws) {
    struct frame *_cilk_frame;
    int x;
    CILK2C_INIT_FRAME(_cilk_frame, sizeof(struct frame), 0);
    left = _cilk_frame;
    x = child(_cilk_ws, 1);
    {
        int __tmp;
        CILK2C_XPOP_FRAME_RESULT(_cilk_frame, 0, x);
    }
    _cilk_frame->header.entry = 2;
    x = child(_cilk_ws, 2);
    _cilk_ws->stolen = 1;
    {
        int __tmp;
        CILK2C_XPOP_FRAME_RESULT(_cilk_frame, 0, x);
    }
    return -1;
}

static void slow(struct state *_cilk_ws, struct frame *_cilk_frame) {
    CILK2C_START_THREAD_SLOW();
    told("taken");
    if (CILK2C_SYNC) {
        told("waits");
        return;
    }
    CILK2C_AFTER_SYNC_SLOW();
    CILK2C_BEFORE_RETURN_SLOW();
}

#define AT(name) printf("%s %zu %zu\n", #name, offsetof(struct weft_cilk_task, name), sizeof(left->weft.name))
#define OF(name) printf("worker.%s %zu %zu\n", #name, offsetof(struct weft_cilk_worker, name), sizeof(second->name))

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) {
        AT(id), AT(parent), AT(created), AT(below), AT(maker), AT(waiting), AT(thread), AT(self), AT(entry), AT(wait);
        AT(traced), AT(pedigree), AT(line), OF(top), OF(next), OF(thread), OF(state), OF(begun), OF(ended), OF(taken),
            OF(unused);
        printf("table %zu %zu\n", offsetof(struct weft_cilk_table, watch), offsetof(struct weft_cilk_table, worker));
        return 0;
    }
    static void *deque[100];
    struct state ws = {deque, deque, 0, 0}, thief = {deque, deque, 1, 1};
    printf("came back %d\n", parent(&ws));
    told("lost");
    slow(&thief, left);
    thief.stolen = 0;
    slow(&thief, left);
    printf("thief: top %lu, %lu ended\n", second->top->id, second->ended);
    return 0;
}
