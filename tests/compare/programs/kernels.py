"""Five kernels on any number of ranks, each with faults that are asked for by name: kernels.py KERNEL [FAULT]."""

import sys

import numpy as np
from mpi4py import MPI

import weft

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.rank, COMM.size
FAULT = sys.argv[2] if len(sys.argv) > 2 else ""
UP, DOWN = (RANK - 1 if RANK else MPI.PROC_NULL), (RANK + 1 if RANK < SIZE - 1 else MPI.PROC_NULL)


def bad(fault, step=2, rank=1):
    """Whether a fault is planted here: in step 2, on rank 1."""
    return fault == FAULT and step == 2 and min(rank, SIZE - 1) == RANK


def everywhere(fault, step=2):
    return fault == FAULT and step == 2


def heat():
    n = 26 if FAULT == "input" else 24
    first, end = weft.block(n, SIZE, RANK)
    a = np.zeros((end - first + 2, n))
    a[1:-1] = np.sin(np.arange(first, end))[:, None] + np.cos(np.arange(n))
    old = a.copy()
    for step in range(5 if FAULT == "loop" else 6):
        with weft.loop("sweep", step):
            source = old if bad("stale-send", step) else a
            if not everywhere("no-exchange", step):
                up, down = (DOWN, UP) if everywhere("neighbour", step) and SIZE == 2 else (UP, DOWN)
                COMM.Sendrecv(source[1].copy(), up, 0, a[-1], down, 0)
                COMM.Sendrecv(source[-2].copy(), down, 1, a[0], up, 1)
            b = a.copy()
            low, high = (1 if first else 2), (len(a) - 1 if end < n else len(a) - 2)
            if bad("bound", step):
                low += 1
            rows = slice(low, high)
            b[rows, 1:-1] = (a[low - 1 : high - 1, 1:-1] + a[low + 1 : high + 1, 1:-1] + a[rows, :-2] + a[rows, 2:]) / 4
            if bad("float32", step):
                b = b.astype(np.float32).astype(np.float64)
            if bad("nan", step):
                b[3, 5] = np.nan
            old, a = a, b
            mine = a[2:-1] if bad("block", step) else a[1:-1]
            weft.probe("A", weft.part(mine, of="A", lower=(first + (1 if bad("block", step) else 0), 0)))
            change = abs(a[1:-1] - old[1:-1]).max()
            change = COMM.allreduce(change, MPI.MIN if everywhere("operation", step) else MPI.MAX)
            weft.probe("change", change)


def matmul():
    n, panels = 24, 4
    first, end = weft.block(n, SIZE, RANK)
    whole = np.arange(n * n, dtype=float).reshape(n, n) % 7
    a, c = whole[first:end], np.zeros((end - first, n))
    for panel in range(panels):
        with weft.loop("panel", panel):
            columns = slice(panel * n // panels, (panel + 1) * n // panels)
            root = panel % SIZE
            block = whole[columns].copy() if root == RANK else np.zeros((n // panels, n))
            if everywhere("root", panel):
                root = (root + 1) % SIZE
            COMM.Bcast(block, root)
            if bad("transposed", panel):
                block = np.ascontiguousarray(block[:, ::-1])
            if bad("not-cleared", panel):
                c *= 2
            if not bad("skipped", panel):
                c += a[:, columns] @ block
            if bad("shifted", panel):
                c = np.roll(c, 1, axis=0)
            weft.probe("C", weft.part(c, of="C", lower=(first, 0), whole=(n, n)))


def nbody():
    n = 12
    first, end = weft.block(n, SIZE, RANK)
    mine = np.cos(np.arange(n) * 1.7)[first:end]
    speed = np.zeros(end - first)
    for step in range(4):
        with weft.loop("step", step):
            force, travelling, owner = np.zeros(end - first), mine.copy(), RANK
            for hop in range(SIZE):
                if not (everywhere("hop", step) and hop == SIZE - 1):
                    other = np.arange(*weft.block(n, SIZE, owner))
                    distance = travelling[None, :] - mine[:, None]
                    if bad("sign", step):
                        distance = -distance
                    away = other[None, :] != np.arange(first, end)[:, None]
                    terms = distance / (abs(distance) ** 3 + 0.1)
                    force += np.where(away, terms, 0 if not bad("itself", step) else 1.0).sum(1)
                if hop < SIZE - 1:
                    sent = mine if bad("stale", step) else travelling
                    travelling = COMM.sendrecv(sent, (RANK + 1) % SIZE, source=(RANK - 1) % SIZE)
                    owner = (owner - 1) % SIZE
            speed += force * (0.02 if bad("step-size", step) else 0.01)
            mine = mine + speed * 0.01
            weft.probe("force", weft.part(force, of="F", lower=first))
            weft.probe("place", weft.part(mine, of="X", lower=first))


def cg():
    n = 32
    first, end = weft.block(n, SIZE, RANK)
    x, r = np.zeros(end - first), (np.arange(first, end) * 7 % 11) - 4.5
    p = r.copy()

    def total(name, terms, step):
        mine = float(terms.sum())
        value = COMM.allreduce(mine)
        if bad(f"local-{name}", step):
            value = mine
        weft.probe(name, value, terms=terms)
        return value

    rho = total("rho", r * r, -1)
    for step in range(6):
        with weft.loop("iteration", step):
            halo = np.zeros(2)
            if not everywhere("halo", step):
                COMM.Sendrecv(p[:1].copy(), UP, 0, halo[1:], DOWN, 0)
                COMM.Sendrecv(p[-1:].copy(), DOWN, 1, halo[:1], UP, 1)
            q = np.concatenate([halo[:1], p, halo[1:]])
            q = 2.1 * p - q[:-2] - q[2:]
            alpha = rho / total("pq", p * q, step)
            x = x + alpha * p
            r = r - alpha * q
            new = total("rho", r * r, step)
            beta = rho / new if bad("beta", step) else new / rho
            p = r + beta * p
            if everywhere("tolerance", step):
                x = x * (1 + 1e-11)
            rho = new
            weft.probe("x", weft.part(x, of="x", lower=first))
            weft.probe("p", weft.part(p, of="p", lower=first))


def sort():
    n = 24
    first, end = weft.block(n, SIZE, RANK)
    mine = np.sort((np.arange(n) * 17 % n)[first:end])
    for phase in range(SIZE - 2 if FAULT == "phases" else SIZE):
        odd = (RANK + phase) % 2
        partner = RANK - 1 if odd else RANK + 1
        if 0 <= partner < SIZE:
            other = COMM.sendrecv(mine, partner, source=partner)
            both = np.sort(np.concatenate([mine, other]))
            low = (partner > RANK) != (FAULT == "side" and RANK + partner == 1 and phase == SIZE - 2)
            mine = both[: len(mine)] if low else both[len(both) - len(mine) :]
    if FAULT == "lost" and RANK == SIZE - 1:
        mine[1] = mine[0]
    if FAULT == "unsigned" and RANK == 0:
        mine = mine - 1
    weft.probe("sorted", weft.part(mine, of="S", lower=first))


{"heat": heat, "matmul": matmul, "nbody": nbody, "cg": cg, "sort": sort}[sys.argv[1]]()
