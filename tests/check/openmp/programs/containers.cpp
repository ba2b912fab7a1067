#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>
#include <omp.h>

namespace {
constexpr int N = 64;

/* case vector_elements data-race */
void vector_elements() {
    std::vector<double> a(N + 1, 1.0), b(N + 1, 2.0);
#pragma omp parallel for
    for (int i = 0; i < N; i++)
        a[i] = a[i + 1]; /* wrong */ /* found */
        a[i] = b[i + 1]; /* right */
}

/* case member data-race */
struct Counter {
    int total = 0;
    std::vector<int> seen = std::vector<int>(N);
    void count() {
#pragma omp parallel for
        for (int i = 0; i < N; i++) {
#pragma omp atomic /* right */
            total += 1; /* found */
            seen[i] = 1;
        }
    }
};
void member() {
    Counter counter;
    counter.count();
}

/* case reference data-race */
void add(int &to, int what) {
    to += what; /* found */
}
void reference() {
    int s = 0;
#pragma omp parallel for /* wrong */
#pragma omp parallel for reduction(+ : s) /* right */
    for (int i = 0; i < N; i++)
        add(s, i);
}

/* case lambda data-race */
void lambda() {
    int last = 0;
    std::vector<int> a(N);
    auto note = [&](int i) {
        last = i; /* wrong */ /* found */
        a[i] = i;
    };
#pragma omp parallel for
    for (int i = 0; i < N; i++)
        note(i);
    a[0] = last;
}

/* case iterators data-race */
void iterators() {
    std::vector<int> a(N, 1);
    int s = 0;
#pragma omp parallel for /* wrong */
#pragma omp parallel for reduction(+ : s) /* right */
    for (auto at = a.begin(); at < a.end(); ++at)
        s += *at; /* found */
}

/* case declared_reduction data-race */
struct Pair {
    int low = 1 << 30, high = -(1 << 30);
    void take(int v) {
        low = std::min(low, v); /* found */
        high = std::max(high, v); /* found */
    }
    void join(const Pair &o) {
        low = std::min(low, o.low);
        high = std::max(high, o.high);
    }
};
#pragma omp declare reduction(join : Pair : omp_out.join(omp_in))
void declared_reduction() {
    Pair p;
#pragma omp parallel for /* wrong */
#pragma omp parallel for reduction(join : p) /* right */
    for (int i = 0; i < N; i++)
        p.take(i);
}

/* case constructed data-race */
struct Buffer {
    std::vector<int> data = std::vector<int>(4);
};
void constructed() {
    Buffer shared;
#pragma omp parallel for /* wrong */
#pragma omp parallel for firstprivate(shared) /* right */
    for (int i = 0; i < N; i++)
        shared.data[1] = i; /* found */
}

/* case atomics data-race */
void atomics() {
    std::atomic<int> n{0};
    int m = 0;
#pragma omp parallel for
    for (int i = 0; i < N; i++) {
        n.fetch_add(1);
        m += 1; /* wrong */ /* found */
    }
    m += n.load();
}

/* case map_filled data-race */
void map_filled() {
    std::map<int, int> held;
    for (int i = 0; i < N; i++) held[i] = 0;
#pragma omp parallel for
    for (int i = 0; i < N; i++)
        held[i / 2] = i; /* wrong */ /* found */
        held[i] = i; /* right */
}

/* case task_of_a_method data-race */
struct Node {
    Node *next = nullptr;
    int value = 0;
};
void task_of_a_method() {
    std::array<Node, N> nodes;
    int sum = 0;
    for (int i = 0; i + 1 < N; i++) nodes[i].next = &nodes[i + 1];
#pragma omp parallel
#pragma omp single
    for (Node *at = &nodes[0]; at; at = at->next) {
#pragma omp task firstprivate(at) shared(sum)
        {
            at->value = 1;
#pragma omp critical /* right */
            sum += at->value; /* found */
        }
    }
}

/* case private_object uninitialised-read */
struct Held {
    int value = 3;
};
void private_object() {
    std::vector<int> a(N);
    Held held;
    double t = 1;
#pragma omp parallel for private(held, t)
    for (int i = 0; i < N; i++) {
        t = 2; /* right */
        a[i] = held.value + static_cast<int>(t); /* found */
    }
}
}

// what std::mutex keeps apart
/* case without_the_mutex data-race */
void without_the_mutex() {
    std::mutex mutex;
    std::recursive_mutex again;
    int count = 0;
#pragma omp parallel for
    for (int i = 0; i < 40; i++) {
        std::lock_guard<std::mutex> held(mutex); /* right */
        std::lock_guard<std::recursive_mutex> once(again); /* right */
        std::lock_guard<std::recursive_mutex> twice(again); /* right */
        count += i; /* found */
    }
}

/* case two_mutexes data-race */
void two_mutexes() {
    std::mutex one, other;
    int count = 0;
#pragma omp parallel sections
    {
        {
            std::lock_guard<std::mutex> held(one);
            count++; /* found */
        }
#pragma omp section
        {
            std::lock_guard<std::mutex> held(other); /* wrong */
            std::lock_guard<std::mutex> held(one); /* right */
            count++; /* found */
        }
    }
}

/* case one_string_of_all data-race */
void one_string_of_all() {
    std::string text; /* wrong */
#pragma omp parallel for
    for (int i = 0; i < 40; i++) {
        std::string text; /* right */
        text += "x"; /* found */
    }
}

/* case bits data-race */
void bits() {
    std::vector<bool> is_odd(N); /* wrong */
    std::vector<char> is_odd(N); /* right */
#pragma omp parallel for
    for (int i = 0; i < N; i++)
        is_odd[i] = i % 2; /* found */
}

/* case static_in_a_function data-race */
static int next_number() {
    static int last = 1; /* wrong */
    static thread_local int last = 1; /* right */
    last = last * 16807 % 2147483647; /* found */
    return last;
}
void static_in_a_function() {
    int sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < N; i++)
        sum += next_number();
}
