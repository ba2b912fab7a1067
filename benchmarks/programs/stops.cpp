// Work on containers between exchanges round a ring: stops.py stops in it. Argument: the rounds.
#include <mpi.h>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <string>
#include <vector>

template <typename T> class Part {
public:
    explicit Part(std::size_t size) : cells(size) { std::iota(cells.begin(), cells.end(), T(1)); }
    T smooth() {
        std::vector<T> before = cells;
        for (std::size_t i = 1; i + 1 < cells.size(); i++) cells[i] = (before[i - 1] + before[i + 1]) / 2;
        return std::accumulate(cells.begin(), cells.end(), T(0)); /* here */
    }
    T &edge() { return cells.front(); }

private:
    std::vector<T> cells;
};

int main(int argc, char **argv) {
    int rank, size, rounds = argc > 1 ? std::atoi(argv[1]) : 50;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    Part<double> part(1000);
    std::map<std::string, double> sums;
    for (int round = 0; round < rounds; round++) {
        double mine = part.smooth(), left = 0;
        MPI_Sendrecv(&mine, 1, MPI_DOUBLE, (rank + 1) % size, 7, &left, 1, MPI_DOUBLE, (rank + size - 1) % size, 7,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sums["round " + std::to_string(round % 10)] += left;
        part.edge() = left / 1000;
    }
    MPI_Finalize();
    return sums.empty();
}
