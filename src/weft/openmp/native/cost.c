/* Where a check costs more than it should: samples after ten seconds, and a line that names the construct.
 *
 * A thread of the runtime's own interrupts the one that runs, while that computes (never in a call of the system, which a
 * signal would end early), and asks whose code it is in: the program's, or the runtime's and what that calls. What the
 * program's own code takes is near to what the plain program takes.
 */
#include "openmp.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define FIRST_SECONDS 10
#define SAMPLES 256
#define BETWEEN 4000000 /* nanoseconds */
#define MOST_LOOKS 4096 /* for so many samples: one that waits is not interrupted */
#define WORDS 512 /* of the stack, to find who called a library */
#define MOST_DEPTH 64
#define PROMISE 25
/* The program's own share of a checked run, compiled for it, is so many times what the plain program takes (measured). */
#define OWN_SLOWDOWN(n) ((n) * 3 / 2)

extern char __start_weft_text, __stop_weft_text, __start_weft_hooks, __stop_weft_hooks;

static struct {
    volatile bool taken;
    bool runtime;
    uint32_t place;
} sample;

static bool is_runtime(uintptr_t pc) {
    return (pc >= (uintptr_t)&__start_weft_text && pc < (uintptr_t)&__stop_weft_text) ||
           (pc >= (uintptr_t)&__start_weft_hooks && pc < (uintptr_t)&__stop_weft_hooks);
}

static bool is_program(uintptr_t pc) { return pc - now.start < now.text || is_runtime(pc); }

static uintptr_t pc_in(const ucontext_t *c) {
#if defined __x86_64__
    return (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
#elif defined __aarch64__
    return c->uc_mcontext.pc;
#else
    return (void)c, 0;
#endif
}

static uintptr_t stack_in(const ucontext_t *c) {
#if defined __x86_64__
    return (uintptr_t)c->uc_mcontext.gregs[REG_RSP];
#elif defined __aarch64__
    return c->uc_mcontext.sp;
#else
    return (void)c, 0;
#endif
}

static uint32_t running_construct(const struct thread *t) {
    strand_t s = t->current;
    for (int i = 0; i < MOST_DEPTH && s >= weft_first && s < now.next; i++, s = node(s)->parent)
        if (node(s)->place) return node(s)->place;
    return 0;
}

static void take_sample(int number, siginfo_t *why, void *context) {
    (void)number, (void)why;
    uintptr_t pc = pc_in(context), at = stack_in(context);
    const struct thread *t = find_stack_owner(at); /* not always `me`, where one thread gives way to another */
    for (int i = 0; t && !is_program(pc) && i < WORDS && at >= t->stack_low && at + sizeof at <= t->stack_high; i++) {
        pc = *(const uintptr_t *)at;
        at += sizeof at;
    }
    sample.runtime = is_runtime(pc);
    sample.place = t ? running_construct(t) : 0;
    sample.taken = true;
}

/* Whether a thread computes, and does not wait in a call of the system. */
static bool is_running(int thread) {
    char name[64], text[256];
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", thread);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' && end[2] == 'R';
}

static struct counted {
    uint32_t place;
    int samples;
} counted[SAMPLES];

static void pause_for(time_t seconds, long nanoseconds) {
    nanosleep(&(struct timespec){.tv_sec = seconds, .tv_nsec = nanoseconds}, NULL);
}

/* How many samples were in the runtime; their constructs are counted. -1: too few were to be had. */
static int take_samples(int number) {
    int taken = 0, in_runtime = 0;
    memset(counted, 0, sizeof counted);
    for (int look = 0; taken < SAMPLES; look++) {
        if (look == MOST_LOOKS) return -1;
        pause_for(0, BETWEEN);
        const struct thread *t = weft_me;
        if (!t || !is_running(t->system_id)) continue;
        sample.taken = false;
        if (pthread_kill(t->id, number)) return -1;
        for (int i = 0; !sample.taken && i < MOST_LOOKS; i++) pause_for(0, BETWEEN);
        if (!sample.taken) return -1;
        taken++;
        if (!sample.runtime) continue;
        in_runtime++;
        struct counted *c = counted;
        while (c->samples && c->place != sample.place) c++;
        c->place = sample.place;
        c->samples++;
    }
    return in_runtime;
}

static void *watch_cost(void *none) {
    struct sigaction ours = {.sa_sigaction = take_sample, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK}, old;
    int number = SIGRTMAX - 3;
    for (time_t seconds = FIRST_SECONDS;; seconds *= 2) {
        pause_for(seconds, 0);
        if (seconds == FIRST_SECONDS && (sigaction(number, NULL, &old) || old.sa_handler != SIG_DFL)) break;
        if (seconds == FIRST_SECONDS && sigaction(number, &ours, NULL)) break;
        int in_runtime = take_samples(number), own = SAMPLES - in_runtime;
        if (in_runtime < 0 || OWN_SLOWDOWN(SAMPLES) <= PROMISE * own) continue;
        const struct counted *most = counted;
        for (const struct counted *c = counted; c < counted + SAMPLES && c->samples; c++)
            if (c->samples > most->samples) most = c;
        told_slow(most->place, OWN_SLOWDOWN(SAMPLES) / (own ? own : 1), 100 * most->samples / in_runtime);
        break;
    }
    return none;
}

void cost_open(void) {
    pthread_t id;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (!pthread_create(&id, NULL, watch_cost, NULL)) pthread_detach(id);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}
