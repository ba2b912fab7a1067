#include <map>
#include <memory>
#include <mutex>
#include <vector>
static const int N = 64;

/* case table data-race */
void table() {
    std::map<int, std::unique_ptr<int>> known;
    std::mutex lock;
    int sum = 0;
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
        std::unique_ptr<int> made(new int);
        int *at = made.get();
        *at = i; /* right */
        {
            std::lock_guard<std::mutex> held(lock);
            known[i] = std::move(made);
            for (auto &one : known) sum += *one.second; /* found */
        }
        *at = i; /* wrong */ /* found */
    }
}

/* case bins data-race */
void bins() {
    std::vector<int> bins[N];
    std::vector<int> all; /* wrong */
#pragma omp parallel
    {
        std::vector<int> all; /* right */
#pragma omp for
        for (int i = 0; i < N; i++) {
            std::vector<int> &here = bins[i];
            here.push_back(i); /* found */
            all.resize(N); /* right */
            all[i / 2] = i; /* right */
            here = bins[i / 2]; /* wrong */ /* found */
            here.clear();
        }
    }
}
