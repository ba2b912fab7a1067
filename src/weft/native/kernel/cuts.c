/* A record that somebody cuts while it is mapped: its lost pages are replaced by empty ones, and counted. */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#include "../format.h"
#include "cuts.h"

static struct sigaction before;
static uint64_t cuts;

/* Handler of SIGBUS: replace the page that another process cut off a mapped file by an empty one and count it. Any
 * other SIGBUS goes to the handler from before when it comes again. */
static void handle_lost_page(int signal_number, siginfo_t *info, void *context) {
    (void)context;
    int saved_errno = errno;
    void *page = (void *)((uintptr_t)info->si_addr & ~(uintptr_t)(WEFT_PAGE - 1));
    if (info->si_code == BUS_ADRERR &&
        mmap(page, WEFT_PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page) {
        __atomic_add_fetch(&cuts, 1, __ATOMIC_RELAXED);
    } else {
        sigaction(signal_number, &before, NULL); /* what comes again is another one's */
    }
    errno = saved_errno;
}

/* Handle SIGBUS of mapped files from now on; 0, or -1 where that cannot be. */
EXPORT int weft_survive_cuts(void) {
    struct sigaction action = {.sa_sigaction = handle_lost_page, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, &before);
}

EXPORT uint64_t weft_cuts(void) { return __atomic_load_n(&cuts, __ATOMIC_RELAXED); }
