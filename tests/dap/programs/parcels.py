"""Each rank fills a parcel, and the parcels go round once."""

import sys
from array import array

from mpi4py import MPI

comm = MPI.COMM_WORLD
me, size = comm.rank, comm.size


class Label:
    __slots__ = ("name", "number")

    def __init__(self, number):
        self.number, self.name = number, f"from {number}"


class Parcel:
    def __init__(self, number):
        self.label = Label(number)
        self.weights = array("d", [1, 2, 6.5])
        self.notes = {"to": (number + 1) % size, 7: [0.5, 1.5]}


def pass_on(parcel):
    got = comm.sendrecv(parcel.label.number, (me + 1) % size, 3, source=(me - 1) % size)
    print("got", got)
    got += parcel.label.number  # here
    return got


for turn in range(2):
    result = pass_on(Parcel(me + 10 * turn))
    print("turn", turn, "gave", result, file=sys.stderr)
comm.Barrier()
