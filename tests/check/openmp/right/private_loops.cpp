// Loop variables that are private, where C++ has iterators, references and objects.
#include <cstdio>
#include <string>
#include <vector>
static std::vector<double> a(40, 1.0);

int main() {
    std::size_t i = 0;
    std::vector<double>::iterator at = a.begin();
    std::string text = "x";
    double *p = nullptr;
#pragma omp parallel for private(i, at)
    for (std::vector<double>::iterator at = a.begin(); at < a.end(); ++at)
        for (std::size_t i{0}; i < 3; i++) *at += i;
#pragma omp parallel for private(i, text, p)
    for (auto i = a.size() - 1; i > 0; --i) {
        p = &a[i];
        text = "y";
        *p += text.size();
    }
#pragma omp parallel private(i)
    for (auto &one : std::vector<double>{1, 2}) {
        i = one;
#pragma omp for private(p)
        for (int k = 0; k < 40; k++) p = &a[k], *p += i;
    }
    double sum = 0;
    for (double one : a) sum += one;
    std::printf("%.6f\n", sum);
}
