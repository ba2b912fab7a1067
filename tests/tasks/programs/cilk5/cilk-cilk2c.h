// A stand-in for Cilk-5's header of this name, with what Weft's needs of it: one worker, whose thief is the test.
struct header {
    int entry;
    void *receiver, *sig;
};
struct state {
    void **head, **tail;
    int self, stolen;
};
static void *Cilk_cilk2c_init_frame(struct state *ws, unsigned long size, void *sig) {
    struct header *f = __builtin_malloc(size);
    f->sig = sig;
    *ws->tail++ = f;
    return f;
}
static int Cilk_cilk2c_pop_check(struct state *ws) { return ws->stolen; }
static void Cilk_cilk2c_pop(struct state *ws) { ws->tail--; }
static int Cilk_exception_handler(struct state *ws, void *result, int size) {
    (void)result, (void)size;
    return ws->stolen;
}
static int Cilk_sync(struct state *ws) { return ws->stolen; }
#define NOTHING(name)                                                                                                  \
    static void name(struct state *ws, struct header *f) { (void)ws, (void)f; }
NOTHING(Cilk_cilk2c_start_thread_slow_cp)
NOTHING(Cilk_cilk2c_start_thread_slow)
NOTHING(Cilk_cilk2c_before_return_fast_cp)
NOTHING(Cilk_cilk2c_before_return_slow_cp)
NOTHING(Cilk_cilk2c_after_sync_slow_cp)
NOTHING(Cilk_cilk2c_at_sync_fast_cp)
static void Cilk_cilk2c_event_new_thread_maybe(struct state *ws) { (void)ws; }
static void Cilk_cilk2c_before_return_fast(struct state *ws, struct header *f, unsigned long size) {
    (void)size;
    ws->tail--;
    __builtin_free(f);
}
#define Cilk_cilk2c_before_return_slow Cilk_cilk2c_before_return_fast
