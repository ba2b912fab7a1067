// Sorting, an object's method, a template: Cilk Plus in C++.
#include <algorithm>
#include <cilk/cilk.h>
#include <iostream>
#include <vector>

template <class Iterator> void sorted(Iterator from, Iterator to) {
    if (to - from < 8) {
        std::sort(from, to);
        return;
    }
    auto pivot = *(to - 1);
    auto middle = std::partition(from, to - 1, [=](int value) { return value < pivot; });
    std::swap(*(to - 1), *middle);
    cilk_spawn sorted(from, middle);
    sorted(middle + 1, to);
}

struct Counter {
    int count = 0;
    void add(int by) { count += by; }
};

int main() {
    std::vector<int> values;
    for (unsigned i = 0, x = 7; i < 500; i++, x = x * 1103515245 + 12345) values.push_back(x >> 16 & 1023);
    Counter counter, *other = &counter;
    _Cilk_spawn counter.add(3);
    _Cilk_sync;
    cilk_spawn other->add(4);
    cilk_spawn sorted<std::vector<int>::iterator>(values.begin(), values.end());
    cilk_sync;
    std::cout << std::is_sorted(values.begin(), values.end()) << " " << counter.count << "\n";
}
