// Each rank fills a parcel, and the parcels go round once.
#include <mpi.h>
#include <string>
#include <vector>

struct Label { int id; std::string name; };
struct Parcel { Label label; double weights[2][3]; std::vector<double> items; Label *to; };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int me, size, got = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    Label there = {me + 100, "there"};
    Parcel parcel = {{me, "from " + std::to_string(me)}, {{1, 2, 3}, {4, 5, 6.5}}, {0.5, 1.5}, &there};
    const Parcel &same = parcel;
    MPI_Sendrecv(&parcel.label.id, 1, MPI_INT, (me + 1) % size, 3, &got, 1, MPI_INT, (me + size - 1) % size, 3,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    got += same.label.id; /* here */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
