"""What numpy can be asked to do with an array: what is printed is the same whether or not accesses are written down."""

import copy
import pickle

import numpy as np
from mpi4py import MPI

import weft

rank = MPI.COMM_WORLD.rank
x = weft.part(np.arange(42.0).reshape(6, 7) + rank, halo=1, comm=MPI.COMM_WORLD)
y = np.empty_like(x)
y[...] = x.copy()


def say(*values):
    print(rank, *(repr(one).replace("\n", " ") for one in values))


say(x, str(x), f"{x[1, 1]:.1f}", x[1], x[1, 1], x.T, x[::2, ::-1], x[x > 20], x[[1, 3]], x.shape, len(x))
say(x + 1, 1 - x, x @ x.T, x.sum(), x.max(axis=0), np.add.reduce(x), np.cumsum(x), np.multiply.outer(x[0], x[1]))
say(np.where(x > 3, x, 0), np.concatenate([x, y]), np.stack([x, y]).shape, np.roll(x, 1, 0), np.sort(x, axis=None))
say(
    np.linalg.norm(x), np.dot(x[0], x[1]), np.einsum("ij,ij", x, y), np.divmod(x, 3), np.modf(x), np.isclose(x, y).all()
)
x[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
x[0] = 5
x[2, 3] += 2
x[x > 40] = -1.0
x[[1, 2], [3, 4]] *= 2
np.add(x, 1, out=x)
np.add(x, 1, out=x, where=x > 0)
np.add.at(x, ([1, 1], [2, 2]), 10)
np.copyto(y, x)
y.fill(2)
x.sort(axis=1)
np.clip(x, 0, 30, out=x)
np.put(x, [0, 1], 9)
say(x, y, x.astype(int), x.tolist(), list(x[0]), bool(x[0, 0]), float(x.ravel()[3]), x.flatten(), np.asarray(x).sum())
say(pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x), np.array(x), x.view(np.int64)[0, 0], x.reshape(7, 6))
say(x == y, (x > 3).any(), ~(x > 3), x**2, -x, abs(x), x // 2, np.sqrt(np.abs(x)), x.mean(), x.std(), np.median(x))
for word, key in (("index", (9, 9)), ("shape", slice(0, 2))):
    try:
        x[key] = np.zeros(3)
    except (IndexError, ValueError) as error:
        say(word, str(error))
say(type(pickle.loads(pickle.dumps(x))), isinstance(x, np.ndarray), type(x[0, 0]), type(x.sum()))
