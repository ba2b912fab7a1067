/* The runtime by its own interface: a case a number, wrong with "wrong" as second argument, else its twin. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { L = 8, A = 1, B, EPS, T, HEAP, FLOATS, BYTES };

static double a[L][L], b[L][L], eps, t;
static float floats[L];
static char bytes[L];
static int wrong;

static const int both[] = {0, 1}, blocks[] = {WEFT_BLOCK, WEFT_BLOCK};
static const int64_t one[] = {1, 1}, none[] = {0, 0}, extent[] = {L, L};

static void declare(void)
{
    weft_check_array(A, a, 8, 2, none, extent, WEFT_ORDER_C);
    weft_check_array(B, b, 8, 2, none, extent, WEFT_ORDER_C);
    weft_check_data(EPS, &eps, sizeof eps);
    weft_check_data(T, &t, sizeof t);
    weft_check_distribute(1, A, a, 2, blocks);
    weft_check_align(2, B, b, A, a, 2, both, one, none);
}

static void begin(int construct, const void *on, unsigned flags)
{
    weft_check_loop_begin(construct, 2, flags);
    if (on)
        weft_check_loop_on(0, on, 2, both, one, none);
}

#define EACH(from, to) \
    for (int64_t i = (from); i < (to); i++) \
        for (int64_t j = (from); j < (to); j++)

static void fill(void)
{
    begin(3, a, 0);
    weft_check_loop_start();
    EACH(0, L)
    {
        weft_check_iteration2(i, j);
        a[i][j] = 1 + (double)i * j;
        b[i][j] = i - j;
    }
    weft_check_loop_end(3);
}

static void renewed(int corner) { weft_check_shadow_renew(4, A, a, 0, NULL, NULL, corner); }

/* One loop over the inside with a body; clauses are said before. */
#define LOOP(body) \
    weft_check_loop_start(); \
    EACH(1, L - 1) \
    { \
        weft_check_iteration2(i, j); \
        body; \
    } \
    weft_check_loop_end(5)

static void flow(void)
{
    const int64_t low[] = {1, 0}, high[] = {0, 0};
    fill();
    weft_check_shadow_renew(4, B, b, 0, NULL, NULL, 0);
    begin(5, b, 0);
    if (!wrong)
        weft_check_loop_across(B, b, 2, low, high);
    LOOP(b[i][j] = b[i - 1][j] + 1);
}

static void anti_is_right_in_order_and_wrong_without(void)
{
    fill();
    weft_check_shadow_renew(4, B, b, 0, NULL, NULL, 0);
    begin(5, wrong ? NULL : b, 0); /* without ON: threads that share the array */
    LOOP(b[i][j] = b[i + 1][j] + 1);
}

static void never_written(void)
{
    begin(5, a, 0);
    LOOP(a[i][j] = wrong ? b[i][j] : 1);
}

static void private_before_its_write(void)
{
    fill();
    begin(5, a, 0);
    weft_check_loop_private(T, &t, sizeof t);
    LOOP(if (!wrong || j == 1) t = j; a[i][j] = t);
}

static void private_after_the_loop(void)
{
    fill();
    begin(5, a, 0);
    weft_check_loop_private(T, &t, sizeof t);
    LOOP(t = j; a[i][j] = t);
    if (!wrong)
        t = 0;
    eps = t;
}

static void read_only_is_written(void)
{
    fill();
    t = 1;
    begin(5, a, 0);
    LOOP(a[i][j] = t; if (wrong) t = a[i][j] + 1);
}

static void asynchronous_reduction(void)
{
    fill();
    eps = 0;
    begin(5, a, 0);
    weft_check_loop_reduction(EPS, &eps, WEFT_SUM, WEFT_DOUBLE, 1, NULL, 0);
    weft_check_loop_reduction_group(1);
    LOOP(eps += a[i][j]);
    weft_check_reduction_start(6, 1);
    if (wrong)
        t = eps;
    weft_check_reduction_wait(7, 1);
    t = eps;
}

static void partial_value(void)
{
    fill();
    eps = 0;
    begin(5, b, 0);
    weft_check_loop_reduction(EPS, &eps, WEFT_SUM, WEFT_DOUBLE, 1, NULL, 0);
    LOOP(eps += a[i][j]; b[i][j] = wrong ? eps : a[i][j]);
}

static void behind_a_block(void)
{
    const int64_t n[] = {L}, low[] = {0};
    const int kind[] = {WEFT_BLOCK}, axis[] = {0};
    volatile int64_t far = wrong ? L : L - 1;
    double *p = malloc(L * sizeof *p);
    for (int i = 0; i < L; i++)
        p[i] = i;
    weft_check_array(HEAP, p, 8, 1, low, n, WEFT_ORDER_C);
    weft_check_distribute(8, HEAP, p, 1, kind);
    weft_check_loop_begin(5, 1, 0);
    weft_check_loop_on(HEAP, p, 1, axis, one, none);
    weft_check_loop_start();
    for (int64_t i = 0; i < L; i++) {
        weft_check_iteration1(i);
        if (i == L - 1)
            p[far] = 1;
    }
    weft_check_loop_end(5);
    free(p);
}

static void far_away(void)
{
    const int axis[] = {WEFT_CONSTANT, 1};
    const int64_t row[] = {5, 0};
    fill();
    begin(5, b, 0);
    if (!wrong)
        weft_check_loop_remote(A, a, 2, axis, one, row);
    LOOP(b[i][j] = a[5][j]);
}

static void edge_is_written(void)
{
    fill();
    begin(5, b, 0);
    LOOP(b[i][j] = 0; if (wrong) a[i][j + 1] = 1);
}

static void never_renewed(void)
{
    fill();
    if (!wrong)
        renewed(0);
    begin(5, b, 0);
    LOOP(b[i][j] = a[i - 1][j] + a[i][j + 1]);
}

static void changed_after_the_renewal(void)
{
    fill();
    renewed(0);
    if (wrong)
        fill();
    begin(5, b, 0);
    LOOP(b[i][j] = a[i - 1][j]);
}

static void corners(void)
{
    fill();
    renewed(!wrong);
    begin(5, b, 0);
    LOOP(b[i][j] = a[i - 1][j - 1]);
}

static void renewal_has_begun(void)
{
    fill();
    weft_check_shadow_group(4, 2, A, a, 0, NULL, NULL, 0);
    weft_check_shadow_start(6, 2);
    if (!wrong)
        weft_check_shadow_wait(7, 2);
    begin(5, b, 0);
    LOOP(b[i][j] = a[i - 1][j]);
    if (wrong)
        weft_check_shadow_wait(7, 2);
}

static void operation(void)
{
    fill();
    eps = 0;
    begin(5, a, 0);
    weft_check_loop_reduction(EPS, &eps, wrong ? WEFT_SUM : WEFT_MAX, WEFT_DOUBLE, 1, NULL, 0);
    LOOP(if (a[i][j] > eps) eps = a[i][j]);
}

static void two_copies(void)
{
    weft_check_region_begin(9);
    weft_check_region_data(A, a, sizeof a, WEFT_OUT, 0, NULL, NULL);
    weft_check_region_start();
    fill();
    weft_check_region_end(9);
    if (!wrong)
        weft_check_get_actual(10, A, a, sizeof a, 0, NULL, NULL);
    weft_check_io_begin();
    t = a[2][3];
    weft_check_io_end();
}

static void waits_for_nothing(void)
{
    weft_check_shadow_group(4, 3, A, a, 0, NULL, NULL, 0);
    if (!wrong)
        weft_check_shadow_start(6, 3);
    weft_check_shadow_wait(7, 3);
}

static void tasks(void)
{
    fill();
    weft_check_task_region_begin(11, 20);
    weft_check_task_region_start();
    for (int task = 0; task < 2; task++) {
        weft_check_task_begin(12, task);
        a[wrong ? 0 : task][0] = task;
        weft_check_task_end(12);
    }
    weft_check_task_region_end(11);
}

static void neighbours_of_four_bytes(void)
{
    const int64_t n[] = {L}, low[] = {0};
    const int kind[] = {WEFT_BLOCK}, axis[] = {0};
    weft_check_array(FLOATS, floats, 4, 1, low, n, WEFT_ORDER_C);
    weft_check_distribute(8, FLOATS, floats, 1, kind);
    weft_check_loop_begin(5, 1, WEFT_UNORDERED);
    weft_check_loop_on(FLOATS, floats, 1, axis, one, none);
    weft_check_loop_start();
    for (int64_t i = 0; i < L; i++) {
        weft_check_iteration1(i);
        floats[i] = 1;
        if (wrong && i > 0)
            floats[i] = floats[i - 1];
    }
    weft_check_loop_end(5);
}

static void neighbours_of_one_byte(void)
{
    const int64_t n[] = {L}, low[] = {0};
    weft_check_array(BYTES, bytes, 1, 1, low, n, WEFT_ORDER_C);
    weft_check_loop_begin(5, 1, WEFT_UNORDERED);
    weft_check_loop_start();
    for (int64_t i = 0; i < L; i++) {
        weft_check_iteration1(i);
        bytes[wrong ? i / 2 : i] = 1;
    }
    weft_check_loop_end(5);
}

static void values_from_code_without_hooks(void)
{
    char text[] = "2.5";
    double read;
    weft_check_clear(&read, sizeof read);
    if (!wrong)
        sscanf(text, "%lf", &read);
    t = read;
}

static void (*const cases[])(void) = {
    flow, anti_is_right_in_order_and_wrong_without, never_written, private_before_its_write, private_after_the_loop,
    read_only_is_written, asynchronous_reduction, partial_value, behind_a_block, far_away, edge_is_written,
    never_renewed, changed_after_the_renewal, corners, renewal_has_begun, operation, two_copies, waits_for_nothing,
    tasks, neighbours_of_four_bytes, neighbours_of_one_byte, values_from_code_without_hooks,
};

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 0;
    wrong = argc > 2 && strcmp(argv[2], "wrong") == 0;
    declare();
    cases[n]();
    printf("%d\n", n);
    return 0;
}
