#include <cstddef>
#include <vector>

namespace {
constexpr int N = 64;

/* case no_from_of_a_vector stale-copy */
double no_from_of_a_vector() {
    std::vector<double> a(N, 1.0);
    double *p = a.data();
#pragma omp target teams distribute parallel for map(to : p[:N]) /* wrong */
#pragma omp target teams distribute parallel for map(tofrom : p[:N]) /* right */
    for (int i = 0; i < N; i++)
        p[i] = i; /* found */
    return a[3]; /* found */
}

template <typename T> struct Field {
    T *values;
    std::size_t size;
    explicit Field(std::size_t n) : values(new T[n]), size(n) {
        for (std::size_t i = 0; i < n; i++) values[i] = T(i);
        T *p = values;
#pragma omp target enter data map(to : p[0 : n])
        (void)p;
    }
    ~Field() {
        T *p = values;
#pragma omp target exit data map(delete : p[0 : size])
        delete[] p;
    }
};

/* case kept_by_an_object stale-copy */
double kept_by_an_object() {
    Field<float> f(N);
    float *p = f.values, s = 0;
    p[5] = 1; /* found */
#pragma omp target update to(p[5 : 1]) /* right */
#pragma omp target map(tofrom : s)
    s = p[5]; /* found */
    return s;
}

/* case by_reference stale-copy */
void fill(double (&a)[N]) {
#pragma omp target map(to : a) /* wrong */
#pragma omp target map(tofrom : a) /* right */
    for (int i = 0; i < N; i++)
        a[i] = i; /* found */
}
double by_reference() {
    double a[N] = {};
    fill(a);
    double s = a[2]; /* found */
    return s;
}

/* case too_short remote-access */
double too_short() {
    std::vector<int> a(N), b(N);
    int *from = a.data(), *to = b.data();
#pragma omp target map(to : from[:N]) map(tofrom : to[: N / 2]) /* wrong */
#pragma omp target map(to : from[:N]) map(tofrom : to[:N]) /* right */
    for (int i = 0; i < N; i++)
        to[i] = from[i]; /* found */
    return b[1];
}
} // namespace

