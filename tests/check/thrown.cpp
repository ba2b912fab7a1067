// Long code without a loop, behind which a variable is only read where something is thrown. Prints how many rows ran
// without hooks, and what was computed.
#include <cstdio>

#pragma dvm array distribute[block]
double a[16];

double x[8][8];

extern "C" {
int rows;

void __real_weft_check_row_exit(void *row, int places);
__attribute__((no_sanitize("thread"))) void __wrap_weft_check_row_exit(void *row, int places)
{
    rows++;
    __real_weft_check_row_exit(row, places);
}
}

#define HALF(p) x[i][p] = x[i][p] * 0.5 + x[j][(3 * p + 1) % 8];
#define EIGHT HALF(0) HALF(1) HALF(2) HALF(3) HALF(4) HALF(5) HALF(6) HALF(7)

__attribute__((noinline)) void odd(int k)
{
    if (k % 2)
        throw k;
}

__attribute__((noinline)) double called(int i, int j, int k)
{
    double before = 0;
    try {
        before = x[i][j] + k;
        EIGHT EIGHT EIGHT EIGHT
        odd(k);
        before = 1;
    } catch (int thrown) {
        return before + thrown;
    }
    return before;
}

int main()
{
    double told = 0;
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < 16; i++)
        a[i] = i;
    for (int i = 0; i < 64; i++)
        x[i / 8][i % 8] = i;
    for (int k = 0; k < 30; k++)
        told = told / 2 + called(k % 8, (k + 3) % 8, k);
    std::printf("%d %.17g\n", rows, told);
    return 0;
}
