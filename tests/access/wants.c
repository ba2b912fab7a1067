/* A recorder for tests, to be loaded before a program that `weft cc` built: it wants what WANTS says, counts what it is
 * told of, and leaves each register as a callee may.
 *
 * WANTS: "nothing" there is, "elsewhere" (something, but no page of the program), "all" pages, "some" of them,
 * "named" what the program names by wanted(), "frames" all, and counts the callers of each access. */
#define _GNU_SOURCE
#include "client.h"
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t fine[WEFT_FINE], coarse[WEFT_COARSE];
static struct weft_client *client;
static unsigned long seen, sum, frames;
static uintptr_t low, high;
static int with_frames;

static void spoil(void) {
    __asm__ volatile(
        "pcmpeqd %%xmm0, %%xmm0\n movdqa %%xmm0, %%xmm1\n movdqa %%xmm0, %%xmm2\n movdqa %%xmm0, %%xmm3\n"
        "movdqa %%xmm0, %%xmm4\n movdqa %%xmm0, %%xmm5\n movdqa %%xmm0, %%xmm6\n movdqa %%xmm0, %%xmm7\n"
        "movdqa %%xmm0, %%xmm8\n movdqa %%xmm0, %%xmm9\n movdqa %%xmm0, %%xmm10\n movdqa %%xmm0, %%xmm11\n"
        "movdqa %%xmm0, %%xmm12\n movdqa %%xmm0, %%xmm13\n movdqa %%xmm0, %%xmm14\n movdqa %%xmm0, %%xmm15\n"
        "mov $-1, %%rax\n mov %%rax, %%rcx\n mov %%rax, %%rdx\n mov %%rax, %%rsi\n mov %%rax, %%rdi\n"
        "mov %%rax, %%r8\n mov %%rax, %%r9\n mov %%rax, %%r10\n mov %%rax, %%r11\n cmp $5, %%rax" ::
            : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
              "xmm13", "xmm14", "xmm15", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc");
}

static void touched(uintptr_t address, size_t bytes, unsigned kind, uintptr_t place) {
    (void)place;
    if (kind == WEFT_HOOK_FREE) return;
    if (high && (address + bytes <= low || address >= high)) return;
    seen++;
    sum += (address - low) * (kind + 1);
    void *callers[64];
    if (with_frames) frames += (unsigned long)backtrace(callers, 64);
    spoil();
}

static void want(uintptr_t from, uintptr_t to) {
    for (uintptr_t page = from >> WEFT_PAGE_SHIFT; page <= (to - 1) >> WEFT_PAGE_SHIFT; page++)
        client->pages[page % WEFT_PAGES] = WEFT_PAGE_READS | WEFT_PAGE_WRITES;
    *client->low = from;
    *client->span = to - from;
}

void wanted(void *p, size_t bytes);
void wanted(void *p, size_t bytes) {
    low = (uintptr_t)p, high = low + bytes;
    want(low, high);
}

void weft_access_join(struct weft_client *of);
void weft_access_join(struct weft_client *of) {
    const char *wants = getenv("WANTS");
    if (client || !wants || !strcmp(wants, "nothing")) return;
    client = of;
    memset(fine, -1, sizeof fine);
    of->fine = fine, of->coarse = coarse, of->touched = touched;
    with_frames = !strcmp(wants, "frames");
    int all = with_frames || !strcmp(wants, "all"), some = !strcmp(wants, "some");
    for (size_t i = 0; i < WEFT_PAGES; i++)
        if (all || (some && i % 2)) of->pages[i] = WEFT_PAGE_READS | WEFT_PAGE_WRITES;
    if (!strcmp(wants, "named")) return;
    *of->low = 1;
    *of->span = (uintptr_t)-1 / 2;
}

void weft_access_leave(struct weft_client *of);
void weft_access_leave(struct weft_client *of) {
    if (of != client) return;
    *of->span = 0;
    if (getenv("TELLS")) fprintf(stderr, "%lu %lu %lu\n", seen, high ? sum : 0, frames);
}
