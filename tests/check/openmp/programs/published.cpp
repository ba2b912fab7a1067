#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
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
        }
    }
}

/* case made_once data-race */
static const std::vector<int> &squares() {
    static std::vector<int> all(N, 4);
    return all;
}
void made_once() {
    std::once_flag flag;
    int *table = nullptr, sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < N; i++) {
        if (!table) table = new int(3); /* wrong */ /* found */
        std::call_once(flag, [&] { table = new int(3); }); /* right */
        sum += *table + squares()[i]; /* found */
    }
}

/* case readers data-race */
void readers() {
    std::shared_mutex lock;
    static int counts[N];
    int sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < N; i++) {
        {
            std::shared_lock<std::shared_mutex> held(lock); /* wrong */
            std::unique_lock<std::shared_mutex> held(lock); /* right */
            counts[i / 2]++; /* found */
        }
        std::shared_lock<std::shared_mutex> held(lock);
        sum += counts[0]; /* found */
    }
}
