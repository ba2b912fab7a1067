// Tasks that the debugger holds, while others go on.
//
// One that has not begun, or lies on the heap, is held where its worker would take it up: the worker waits there. The
// thread of one that runs is given the address of weft_tasks_pause as its next instruction, by the debugger, while it
// stands in a line of the program: never within the runtime or the C library, whose locks it may have.
#define _GNU_SOURCE
#include "holds.h"
#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Sleep in this thread as long as the debugger holds a task.
void weft_tasks_wait_while_held(const task *held) {
    const struct timespec two_milliseconds = {0, 2000000};
    int saved_errno = errno;
    while (__atomic_load_n(&held->traced, __ATOMIC_ACQUIRE) & HELD) syscall(SYS_nanosleep, &two_milliseconds, NULL);
    errno = saved_errno;
}

// Comes back to where the thread was, with all that it had. The debugger has put below the stack's red zone:
//
//    0 pc, where it was      8 the task's record      16 to 143: the red zone      144: where its stack pointer was
//
// No other register is used than those kept here; the kernel keeps the others. It is described as a signal's frame, so
// that who looks at the stack takes the pc for that of an instruction which has not been done.
#ifdef __x86_64__
_Static_assert(offsetof(task, traced) == 68 && HELD == 1 << 24, "testb looks at that byte");
__asm__(".pushsection .text\n"
        ".globl weft_tasks_pause\n"
        ".hidden weft_tasks_pause\n"
        ".type weft_tasks_pause, @function\n"
        "weft_tasks_pause:\n"
        ".cfi_startproc\n"
        ".cfi_signal_frame\n"
        ".cfi_def_cfa rsp, 144\n"
        ".cfi_offset rip, -144\n"
        "pushfq\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_offset 49, -152\n"
        "pushq %rax\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_offset rax, -160\n"
        "pushq %rcx\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_offset rcx, -168\n"
        "pushq %rsi\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_offset rsi, -176\n"
        "pushq %rdi\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_offset rdi, -184\n"
        "pushq %r11\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_offset r11, -192\n"
        "1: movq 56(%rsp), %rax\n"
        "testb $1, 71(%rax)\n"
        "je 2f\n"
        "movl $35, %eax\n" // nanosleep
        "leaq 3f(%rip), %rdi\n"
        "xorl %esi, %esi\n"
        "syscall\n"
        "jmp 1b\n"
        "2: popq %r11\n"
        ".cfi_adjust_cfa_offset -8\n"
        ".cfi_restore r11\n"
        "popq %rdi\n"
        ".cfi_adjust_cfa_offset -8\n"
        ".cfi_restore rdi\n"
        "popq %rsi\n"
        ".cfi_adjust_cfa_offset -8\n"
        ".cfi_restore rsi\n"
        "popq %rcx\n"
        ".cfi_adjust_cfa_offset -8\n"
        ".cfi_restore rcx\n"
        "popq %rax\n"
        ".cfi_adjust_cfa_offset -8\n"
        ".cfi_restore rax\n"
        "popfq\n"
        ".cfi_adjust_cfa_offset -8\n"
        ".cfi_restore 49\n"
        "ret $136\n"
        ".cfi_endproc\n"
        ".size weft_tasks_pause, .-weft_tasks_pause\n"
        ".balign 8\n"
        "3: .quad 0, 2000000\n"
        ".popsection\n");
#endif
