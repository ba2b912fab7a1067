/* How a public name reaches its slot. Arguments stay where they are; only scratch registers are used. */
#if defined(__x86_64__)

.macro STUB name, k
    .globl \name
    .type \name, @function
    .balign 16
\name:
    jmp *weft_slots+8*\k(%rip)
    .size \name, .-\name
weft_first_\k:
    movl $\k, %r11d
    jmp weft_first
.endm

/* Keeps the return address for the C function that the binding calls, then goes on to the binding. */
.macro FORTRAN_STUB name, j
    .globl \name
    .type \name, @function
    .balign 16
\name:
    movq weft_fortran_site@gottpoff(%rip), %r10
    movq (%rsp), %r11
    movq %r11, %fs:(%r10)
    movq weft_fortran_entry@gottpoff(%rip), %r10
    movl $\j, %fs:(%r10)
    movq weft_fortran_slots+8*\j(%rip), %r11
    testq %r11, %r11
    jz 1f
    jmp *%r11
1:  movl $\j, %r11d
    jmp weft_first_fortran
    .size \name, .-\name
.endm

/* Says which function of seldom.h is called, then goes on to the body of all. */
.macro SELDOM name, j
    .globl weft_w_\name
    .hidden weft_w_\name
    .type weft_w_\name, @function
weft_w_\name:
    movq weft_seldom_at@gottpoff(%rip), %r10
    movl $\j, %fs:(%r10)
    jmp weft_record_generic_call
    .size weft_w_\name, .-weft_w_\name
.endm

.macro SAVE
    pushq %rbp
    movq %rsp, %rbp
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %r8
    pushq %r9
    pushq %rax
    pushq %r11
    andq $-16, %rsp
.endm
.macro RESTORE
    leaq -64(%rbp), %rsp
    popq %r11
    popq %rax
    popq %r9
    popq %r8
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
    popq %rbp
.endm

    .text
weft_first:
    SAVE
    call weft_bind_functions
    RESTORE
    leaq weft_slots(%rip), %r10
    jmp *(%r10,%r11,8)

weft_first_fortran:
    SAVE
    movl %r11d, %edi
    call weft_bind_fortran_function
    RESTORE
    leaq weft_fortran_slots(%rip), %r10
    jmp *(%r10,%r11,8)

#elif defined(__aarch64__)

.macro STUB name, k
    .globl \name
    .type \name, %function
    .balign 16
\name:
    adrp x16, weft_slots+8*\k
    ldr x16, [x16, #:lo12:weft_slots+8*\k]
    br x16
    .size \name, .-\name
weft_first_\k:
    mov x17, #\k
    b weft_first
.endm

.macro FORTRAN_STUB name, j
    .globl \name
    .type \name, %function
    .balign 16
\name:
    adrp x16, weft_fortran_slots+8*\j
    ldr x16, [x16, #:lo12:weft_fortran_slots+8*\j]
    cbz x16, 1f
    br x16
1:  mov x17, #\j
    b weft_first_fortran
    .size \name, .-\name
.endm

/* Says which function of seldom.h is called, then goes on to the body of all. */
.macro SELDOM name, j
    .globl weft_w_\name
    .hidden weft_w_\name
    .type weft_w_\name, %function
weft_w_\name:
    adrp x16, :gottprel:weft_seldom_at
    ldr x16, [x16, #:gottprel_lo12:weft_seldom_at]
    mrs x17, tpidr_el0
    mov w9, #\j
    str w9, [x16, x17]
    b weft_record_generic_call
    .size weft_w_\name, .-weft_w_\name
.endm

.macro SAVE
    stp x29, x30, [sp, #-96]!
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    stp x8, x17, [sp, #80]
.endm
.macro RESTORE
    ldp x0, x1, [sp, #16]
    ldp x2, x3, [sp, #32]
    ldp x4, x5, [sp, #48]
    ldp x6, x7, [sp, #64]
    ldp x8, x17, [sp, #80]
    ldp x29, x30, [sp], #96
.endm

    .text
weft_first:
    SAVE
    bl weft_bind_functions
    RESTORE
    adrp x16, weft_slots
    add x16, x16, #:lo12:weft_slots
    ldr x16, [x16, x17, lsl #3]
    br x16

weft_first_fortran:
    SAVE
    mov w0, w17
    bl weft_bind_fortran_function
    RESTORE
    adrp x16, weft_fortran_slots
    add x16, x16, #:lo12:weft_fortran_slots
    ldr x16, [x16, x17, lsl #3]
    br x16

#else
#error "Weft's recorder knows x86-64 and aarch64"
#endif
