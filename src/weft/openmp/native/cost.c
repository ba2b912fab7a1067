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
#define ENOUGH 64
#define BETWEEN 4000000 /* nanoseconds */
#define MOST_LOOKS 4096 /* one that waits is not interrupted: where threads mostly hand over, few looks give a sample */
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

static bool is_runtime_code(uintptr_t pc) {
    return (pc >= (uintptr_t)&__start_weft_text && pc < (uintptr_t)&__stop_weft_text) ||
           (pc >= (uintptr_t)&__start_weft_hooks && pc < (uintptr_t)&__stop_weft_hooks);
}

static bool is_known_code(uintptr_t pc) { return pc - now.start < now.text || is_runtime_code(pc); }

/* Return the program counter of an interrupted context; 0 on an unknown processor. */
static uintptr_t get_program_counter(const ucontext_t *context) {
#if defined __x86_64__
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined __aarch64__
    return context->uc_mcontext.pc;
#else
    return (void)context, 0;
#endif
}

/* Return the stack pointer of an interrupted context; 0 on an unknown processor. */
static uintptr_t get_stack_pointer(const ucontext_t *context) {
#if defined __x86_64__
    return (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
#elif defined __aarch64__
    return context->uc_mcontext.sp;
#else
    return (void)context, 0;
#endif
}

/* Return the code place of the innermost construct that a thread is running; 0 if there is none. Safe in a signal
 * handler. */
static uint32_t find_running_construct(const struct thread *thread) {
    strand_t strand = thread->current;
    for (int i = 0; i < MOST_DEPTH && strand >= weft_first && strand < now.next; i++) {
        struct node found = weft_nodes[strand - weft_first];
        if (found.number != strand) found = compute_node(strand);
        if (found.place) return found.place;
        strand = found.parent;
    }
    return 0;
}

/* Handle the sampling signal: store in `sample` whether the interrupted code is the checker's runtime (or a library
 * that it called), and which construct was running. */
static void handle_sample_signal(int signal_number, siginfo_t *signal_info, void *context) {
    (void)signal_number, (void)signal_info;
    uintptr_t pc = get_program_counter(context), stack_address = get_stack_pointer(context);
    const struct thread *thread =
        find_stack_owner(stack_address); /* not always `me`, where one thread gives way to another */
    for (int i = 0; thread && !is_known_code(pc) && i < WORDS && stack_address >= thread->stack_low &&
                    stack_address + sizeof stack_address <= thread->stack_high;
         i++) {
        pc = *(const uintptr_t *)stack_address;
        stack_address += sizeof stack_address;
    }
    sample.runtime = is_runtime_code(pc);
    sample.place = thread ? find_running_construct(thread) : 0;
    sample.taken = true;
}

/* Return whether the thread with this kernel id is running, rather than blocked in a system call; reads its state in
 * /proc. */
static bool is_thread_computing(int system_id) {
    char name[64], text[256];
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", system_id);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    text[length > 0 ? length : 0] = 0;
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' && end[2] == 'R';
}

static struct construct_samples {
    uint32_t place;
    int samples;
} construct_samples[SAMPLES];

static void pause_for(time_t seconds, long nanoseconds) {
    nanosleep(&(struct timespec){.tv_sec = seconds, .tv_nsec = nanoseconds}, NULL);
}

/* Interrupt the running thread until there are SAMPLES samples, or after MOST_LOOKS as many as came, and count those
 * that hit the runtime by construct in `construct_samples`. Return how many samples there are, and set `*in_runtime` to
 * how many hit the runtime; 0 if fewer than ENOUGH could be taken. */
static int take_samples(int signal_number, int *in_runtime) {
    int sample_count = 0;
    *in_runtime = 0;
    memset(construct_samples, 0, sizeof construct_samples);
    for (int attempt = 0; sample_count < SAMPLES && attempt < MOST_LOOKS; attempt++) {
        pause_for(0, BETWEEN);
        const struct thread *thread = weft_me;
        if (!thread || !is_thread_computing(thread->system_id)) continue;
        sample.taken = false;
        if (pthread_kill(thread->id, signal_number)) return 0;
        for (int i = 0; !sample.taken && i < MOST_LOOKS; i++) pause_for(0, BETWEEN);
        if (!sample.taken) return 0;
        sample_count++;
        if (!sample.runtime) continue;
        ++*in_runtime;
        struct construct_samples *construct = construct_samples;
        while (construct->samples && construct->place != sample.place) construct++;
        construct->place = sample.place;
        construct->samples++;
    }
    return sample_count >= ENOUGH ? sample_count : 0;
}

/* Thread function: sample the program after 10, 20, 40 … seconds, and report once, as soon as the check is slower than
 * promised, which construct costs most. */
static void *watch_check_cost(void *none) {
    struct sigaction action = {.sa_sigaction = handle_sample_signal, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK},
                     old_action;
    int signal_number = SIGRTMAX - 3;
    for (time_t seconds = FIRST_SECONDS;; seconds *= 2) {
        pause_for(seconds, 0);
        if (seconds == FIRST_SECONDS &&
            (sigaction(signal_number, NULL, &old_action) || old_action.sa_handler != SIG_DFL))
            break;
        if (seconds == FIRST_SECONDS && sigaction(signal_number, &action, NULL)) break;
        int in_runtime, samples = take_samples(signal_number, &in_runtime), in_program = samples - in_runtime;
        if (!samples || OWN_SLOWDOWN(samples) <= PROMISE * in_program) continue;
        const struct construct_samples *costliest = construct_samples;
        for (const struct construct_samples *construct = construct_samples;
             construct < construct_samples + SAMPLES && construct->samples; construct++)
            if (construct->samples > costliest->samples) costliest = construct;
        report_slow_check(costliest->place, OWN_SLOWDOWN(samples) / (in_program ? in_program : 1),
                          100 * costliest->samples / in_runtime);
        break;
    }
    return none;
}

/* Start the thread that watches how slow the check is; it blocks all signals, so that it takes none of the
 * program's. */
void start_cost_watch(void) {
    pthread_t id;
    sigset_t all_signals, old_signals;
    sigfillset(&all_signals);
    pthread_sigmask(SIG_SETMASK, &all_signals, &old_signals);
    if (!pthread_create(&id, NULL, watch_check_cost, NULL)) pthread_detach(id);
    pthread_sigmask(SIG_SETMASK, &old_signals, NULL);
}
