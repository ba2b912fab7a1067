// In front of Cilk-5's header of this name: what cilk2c's output calls at each step of a task calls Weft too.
//
// Neither Cilk's runtime nor its compiler knows of it. Each macro does what the real one does, through the functions
// that Cilk-5 declares for that, and tells the record in the frame.
#include_next <cilk-cilk2c.h>

#include "weft-cilk.h"

#define WEFT_CILK_WORKER (&weft_tasks.worker[_cilk_ws->self & (WEFT_CILK_WORKERS - 1)])

#undef CILK2C_INIT_FRAME
#define CILK2C_INIT_FRAME(f, s, signat)                                                                                \
    {                                                                                                                  \
        f = Cilk_cilk2c_init_frame(_cilk_ws, s, signat);                                                               \
        weft_cilk_begin(WEFT_CILK_WORKER, _cilk_ws, f, &(f)->weft, __builtin_return_address(0));                       \
    }

#undef CILK2C_START_THREAD_SLOW
#define CILK2C_START_THREAD_SLOW()                                                                                     \
    {                                                                                                                  \
        Cilk_cilk2c_start_thread_slow_cp(_cilk_ws, &(_cilk_frame->header));                                            \
        Cilk_cilk2c_start_thread_slow(_cilk_ws, &(_cilk_frame->header));                                               \
        weft_cilk_take(WEFT_CILK_WORKER, _cilk_ws, &_cilk_frame->header.entry, &_cilk_frame->weft);                    \
    }

#undef CILK2C_BEFORE_RETURN_FAST
#define CILK2C_BEFORE_RETURN_FAST()                                                                                    \
    {                                                                                                                  \
        weft_cilk_end(WEFT_CILK_WORKER, &_cilk_frame->weft);                                                           \
        Cilk_cilk2c_before_return_fast_cp(_cilk_ws, &(_cilk_frame->header));                                           \
        Cilk_cilk2c_before_return_fast(_cilk_ws, &(_cilk_frame->header), sizeof(*_cilk_frame));                        \
    }

#undef CILK2C_BEFORE_RETURN_SLOW
#define CILK2C_BEFORE_RETURN_SLOW()                                                                                    \
    {                                                                                                                  \
        weft_cilk_end(WEFT_CILK_WORKER, &_cilk_frame->weft);                                                           \
        Cilk_cilk2c_before_return_slow_cp(_cilk_ws, &(_cilk_frame->header));                                           \
        Cilk_cilk2c_before_return_slow(_cilk_ws, &(_cilk_frame->header), sizeof(*_cilk_frame));                        \
    }

// A child has returned; not 0 from Cilk's handler: its parent's frame was stolen or aborted, and this clone ends here.
#define WEFT_CILK_POP(f, r, result, size)                                                                              \
    if (Cilk_exception_handler(_cilk_ws, result, size)) {                                                              \
        Cilk_cilk2c_pop(_cilk_ws);                                                                                     \
        weft_cilk_drop(WEFT_CILK_WORKER, &(f)->weft);                                                                  \
        return r;                                                                                                      \
    }

#undef CILK2C_XPOP_FRAME_RESULT
#define CILK2C_XPOP_FRAME_RESULT(f, r, result)                                                                         \
    {                                                                                                                  \
        if (Cilk_cilk2c_pop_check(_cilk_ws)) {                                                                         \
            __tmp = result;                                                                                            \
            WEFT_CILK_POP(f, r, &__tmp, sizeof(__tmp))                                                                 \
        }                                                                                                              \
    }

#undef CILK2C_XPOP_FRAME_NORESULT
#define CILK2C_XPOP_FRAME_NORESULT(f, r)                                                                               \
    {                                                                                                                  \
        if (Cilk_cilk2c_pop_check(_cilk_ws)) {                                                                         \
            WEFT_CILK_POP(f, r, (void *)0, 0)                                                                          \
        }                                                                                                              \
    }

#undef CILK2C_SYNC
#define CILK2C_SYNC                                                                                                    \
    (weft_cilk_wait(WEFT_CILK_WORKER, &_cilk_frame->weft, WEFT_CILK_PC),                                               \
     Cilk_sync(_cilk_ws) ? 1 : weft_cilk_stop_waiting(WEFT_CILK_WORKER, &_cilk_frame->weft))
#define WEFT_CILK_PC                                                                                                   \
    __extension__({                                                                                                    \
        __label__ here;                                                                                                \
    here:                                                                                                              \
        (const void *)((char *) && here + 1);                                                                          \
    })

#undef CILK2C_AFTER_SYNC_SLOW
#define CILK2C_AFTER_SYNC_SLOW()                                                                                       \
    {                                                                                                                  \
        Cilk_cilk2c_after_sync_slow_cp(_cilk_ws, &(_cilk_frame->header));                                              \
        weft_cilk_signal_join(&_cilk_frame->weft);                                                                     \
    }

#undef CILK2C_AT_SYNC_FAST
#define CILK2C_AT_SYNC_FAST()                                                                                          \
    {                                                                                                                  \
        Cilk_cilk2c_at_sync_fast_cp(_cilk_ws, &(_cilk_frame->header));                                                 \
        Cilk_cilk2c_event_new_thread_maybe(_cilk_ws);                                                                  \
        weft_cilk_signal_join(&_cilk_frame->weft);                                                                     \
    }
