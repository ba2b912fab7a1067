/* The C++ program of the matrix: the C interface, called from where only C++ has places. */
#include <stdexcept>
#include <vector>

#include "scenario.h"

namespace {

struct Communicator { /* freed by its destructor, also while an exception passes */
    MPI_Comm handle = MPI_COMM_NULL;
    Communicator() { CALL(MPI_Comm_dup, world, &handle); }
    ~Communicator() { CALL(MPI_Comm_free, &handle); }
    Communicator(const Communicator &) = delete;
    Communicator &operator=(const Communicator &) = delete;
};

template <class T> T total(T value, MPI_Datatype type, MPI_Comm comm) {
    T sum = 0;
    CALL(MPI_Allreduce, &value, &sum, 1, type, MPI_SUM, comm);
    return sum;
}

void unwound() {
    try {
        Communicator kept;
        if (total(rank, MPI_INT, kept.handle) != 3) throw std::logic_error("sum");
        total(1L, MPI_LONG, kept.handle);
        throw std::runtime_error("on purpose");
    } catch (const std::runtime_error &) {
        CALL(MPI_Barrier, world);
    }
}

void from_lambda() {
    std::vector<int> cells(8, rank);
    auto exchange = [&](int tag) {
        CALL(MPI_Sendrecv_replace, cells.data(), (int)cells.size(), MPI_INT, next, tag, previous, tag, world, MPI_STATUS_IGNORE);
    };
    exchange(80);
    exchange(81);
}

} // namespace

int main(int argc, char **argv) {
    begin();
    unwound();
    from_lambda();
    everything(argc > 1 ? argv[1] : "cells.dat");
    CALL0(MPI_Finalize);
    return 0;
}
