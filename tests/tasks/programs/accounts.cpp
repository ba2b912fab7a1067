// Two tasks that take the mutexes of two accounts, each its own first; built with -DFIXED, both at once.
#include <mutex>
#include <unistd.h>
#include <vector>

struct Account {
    std::mutex mutex;
    std::vector<int> moves;
};

static void move(Account &from, Account &to, int n) {
#ifdef FIXED
    std::scoped_lock both(from.mutex, to.mutex);
#else
    std::lock_guard<std::mutex> one(from.mutex);
    usleep(300000);
    std::lock_guard<std::mutex> two(to.mutex);
#endif
    from.moves.push_back(-n);
    to.moves.push_back(n);
}

int main() {
    Account a, b;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task shared(a, b)
        move(a, b, 1);
#pragma omp task shared(a, b)
        move(b, a, 2);
    }
    return a.moves.size() == 2 && b.moves.size() == 2 ? 0 : 1;
}
