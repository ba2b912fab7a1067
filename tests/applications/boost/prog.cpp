// A ring of strings and vectors, serialized, and a sum.
#include <boost/mpi.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

namespace mpi = boost::mpi;

int main(int argc, char **argv) {
    mpi::environment environment(argc, argv);
    mpi::communicator world;
    int next = (world.rank() + 1) % world.size(), previous = (world.rank() + world.size() - 1) % world.size();
    std::vector<std::string> words(5, std::string(static_cast<std::size_t>(world.rank() + 1), 'x')), taken;
    mpi::request sent = world.isend(next, 7, words);
    world.recv(previous, 7, taken);
    sent.wait();
    int letters = 0, all = 0;
    for (const auto &word : taken) letters += static_cast<int>(word.size());
    mpi::reduce(world, letters, all, std::plus<int>(), 0);
    if (world.rank() == 0) std::cout << "letters " << all << std::endl;
}
