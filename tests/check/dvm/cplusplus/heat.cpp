// Heat in C++: templates, references, classes, new and delete, the standard library.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

constexpr int L = 12;

#pragma dvm array distribute[block][block] shadow[1:1][1:1]
double A[L][L];
#pragma dvm array align([i][j] with A[i][j])
double B[L][L];

struct Statistics {
    std::vector<double> history;
    std::string name = "heat";
    void add(double value) { history.push_back(value); }
    double largest() const { return *std::max_element(history.begin(), history.end()); }
};

template <typename T>
T square(T value)
{
    return value * value;
}

static void start(double (&a)[L][L])
{
    #pragma dvm parallel([i][j] on A[i][j])
    for (int i = 0; i < L; i++)
        for (int j = 0; j < L; j++) {
            a[i][j] = 0;
            B[i][j] = (i == 0 || j == 0 || i == L - 1 || j == L - 1) ? 0 : 1 + i + j;
        }
}

namespace steps {
double one(bool &again)
{
    double eps = 0;
    #pragma dvm parallel([i][j] on A[i][j]) reduction(max(eps))                    /* right */
    #pragma dvm parallel([i][j] on A[i][j])                                        /* wrong */
    for (int i = 1; i < L - 1; i++)
        for (int j = 1; j < L - 1; j++) {
            const double change = std::fabs(B[i][j] - A[i][j]);
            eps = std::max(eps, change); /* found shared-write loop=-4 at=1,1 of=eps */
            A[i][j] = B[i][j];
        }
    #pragma dvm parallel([i][j] on B[i][j]) shadow_renew(A)                        /* right */
    #pragma dvm parallel([i][j] on B[i][j])                                        /* wrong */
    for (int i = 1; i < L - 1; i++)
        for (int j = 1; j < L - 1; j++)
            B[i][j] = (A[i - 1][j] + A[i + 1][j] + A[i][j - 1] + A[i][j + 1]) / 4; /* found stale-halo-read loop=-3 at=1,1 of=a[0][1] */
    again = eps > 0.01;
    return eps;
}
}

int main(int, char **)
{
    Statistics seen;
    bool again = true;
    start(A);
    for (int step = 0; step < 5 && again; step++)
        seen.add(steps::one(again));
    #pragma dvm array distribute[block]
    double *row = new double[L];
    #pragma dvm array align([i] with row[i])
    double *sums;
    sums = static_cast<double *>(std::malloc(L * sizeof(double)));
    #pragma dvm parallel([i] on row[i])
    for (int i = 0; i < L; i++)
        row[i] = square(0.5 * i);
    #pragma dvm parallel([i] on sums[i]) shadow_renew(row)                         /* right */
    #pragma dvm parallel([i] on sums[i])                                           /* wrong */
    for (int i = 1; i < L; i++)
        sums[i] = row[i] + row[i - 1]; /* found stale-halo-read loop=-2 at=1 of=row[0] */
    double total = 0;
    #pragma dvm parallel([i] on sums[i]) reduction(sum(total))
    for (int i = 1; i < L; i++) {
        auto add = [&](double value) { total += value; };
        add(sums[i]);
    }
    std::printf("%s %g %g\n", seen.name.c_str(), seen.largest(), total);
    delete[] row;
    std::free(sums);
    return 0;
}
