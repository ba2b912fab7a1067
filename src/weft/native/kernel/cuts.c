/* A record that somebody cuts while it is mapped: its lost pages are replaced by empty ones, and counted. */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#include "../format.h"
#include "cuts.h"

static struct sigaction previous_action;
static uint64_t lost_pages;

/* Handle SIGBUS: if a page of a mapped file is gone because another process truncated the file, map an empty page there
 * and count it. Otherwise restore the previous handler, which gets the signal when the access repeats. */
static void handle_lost_page(int signal_number, siginfo_t *info, void *context) {
    (void)context;
    int saved_errno = errno;
    void *page = (void *)((uintptr_t)info->si_addr & ~(uintptr_t)(WEFT_PAGE - 1));
    if (info->si_code == BUS_ADRERR &&
        mmap(page, WEFT_PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page) {
        __atomic_add_fetch(&lost_pages, 1, __ATOMIC_RELAXED);
    } else {
        sigaction(signal_number, &previous_action, NULL); /* what comes again is another one's */
    }
    errno = saved_errno;
}

/* Install the SIGBUS handler that survives the truncation of mapped files. Return 0, or -1 if that fails. */
EXPORT int weft_survive_cuts(void) {
    struct sigaction action = {.sa_sigaction = handle_lost_page, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, &previous_action);
}

EXPORT uint64_t weft_count_lost_pages(void) { return __atomic_load_n(&lost_pages, __ATOMIC_RELAXED); }
