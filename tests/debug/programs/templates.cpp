// Functions that exist only inlined, one a template, built with -O2: gdb stops at their calls without moving on.
#include <mpi.h>
#include <vector>

template <typename T> struct Sum {
    std::vector<T> parts;
    void add(T part) { parts.push_back(part); }
    T at(std::size_t i) const { return parts[i]; }
    std::size_t size() const { return parts.size(); }
};

static inline int total(const Sum<int> &sum, int weight) {
    int all = 0;
    for (std::size_t i = 0; i < sum.size(); i++) {
        int part = sum.at(i);
        all += weight * part;
    }
    return all;
}

int main(int argc, char **argv) {
    int me, received = 0, found = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    Sum<int> sum;
    for (int round = 0; round < 4; round++) {
        MPI_Allreduce(&me, &received, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        sum.add(received + round);
        found += total(sum, round);
        found ^= static_cast<int>(sum.size());
    }
    MPI_Bcast(&found, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return found == 0;
}
