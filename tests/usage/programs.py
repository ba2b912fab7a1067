"""Small real programs, each with one bug, and their corrected twins, made from templates.

    python tests/usage/programs.py [--mpi mpich|openmpi|both] [--only TEXT] [--pairs N] [--repeat N] [--jobs N]

runs them all under `weft run` and prints a table: every bug must be found, with its kind and its lines, and every twin
must be silent. `<<bug||right>>` in a template is what the two differ in; each line with the comment BUG is one that a
finding must name. Programs are compiled once; a run is a fork of this process, so that Python starts but once. Each
template runs on MPI_COMM_WORLD and on a duplicate. The situations of message races come from race_programs.py, all of
one language in one program.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from threading import Lock

from cause_programs import C_CAUSES, PY_CAUSES
from fresh_programs import C_FRESH
from memory_programs import C_MEMORY
from onesided_programs import C_ONESIDED, FORTRAN, FORTRAN_SETUPS, FORTRAN_TEMPLATES
from public_programs import C_PUBLIC, PY_PUBLIC
from race_programs import RaceProgram
from reported_programs import C_REPORTED, PY_REPORTED
from screen_programs import C_SCREENS, FORTRAN_SCREENS, PY_SCREENS
from standard_programs import C_STANDARD, FORTRAN_STANDARD, PY_STANDARD

import weft
from weft.cli.main import main as weft_main
from weft.findings import Finding
from weft.match import match_operations
from weft.order import order_events
from weft.report import run_analyses
from weft.trace import Trace
from weft.usage import proof

ROOT = Path(__file__).resolve().parents[2]
VENVS = {"mpich": ROOT / ".venv", "openmpi": ROOT / ".venv-openmpi"}
FORTRAN_OPTIONS = ("-g", "-O0", "-fallow-argument-mismatch")
LIMIT = 240
"""Seconds for one program; the first run with an MPI builds its recorder."""

BUILDING = Lock()
"""Held while a program is written and compiled: runs of one program may begin side by side."""

PYTHON = """\
from mpi4py import MPI
import numpy as np
import time
{setup}
me, n = comm.rank, comm.size
right, left = (me + 1) % n, (me - 1) % n
a, b, d = np.full(4, me, "i"), np.zeros(4, "i"), np.zeros(8, "d")
big, big2 = np.zeros(1 << 20, "i"), np.zeros(1 << 20, "i")
{body}
{teardown}
"""

C = """\
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <pthread.h>
static int big[1 << 20], big2[1 << 20];
int main(int argc, char **argv) {{
  int me, n, a[8] = {{0}}, b[8] = {{0}};
  double d[8] = {{0}};
  MPI_Request r, q, rs[4];
  MPI_Comm comm;
  MPI_Init(&argc, &argv);
  {setup}
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &n);
  int right = (me + 1) % n, left = (me + n - 1) % n;
  (void)right, (void)left, (void)r, (void)q, (void)rs, (void)d, (void)b, (void)a, (void)big, (void)big2;
{body}
  {teardown}
  MPI_Finalize();
  return 0;
}}
"""

SETUPS = {
    "py": {"world": ("comm = MPI.COMM_WORLD", ""), "dup": ("comm = MPI.COMM_WORLD.Dup()", "comm.Free()")},
    "c": {
        "world": ("comm = MPI_COMM_WORLD;", ""),
        "dup": ("MPI_Comm_dup(MPI_COMM_WORLD, &comm);", "MPI_Comm_free(&comm);"),
    },
}

# kind, name, ranks, body
PY_TEMPLATES = [
    ("deadlock", "recv_first", 2, """
if me == 0: comm.<<Recv||Isend>>(<<b||a>>, right, 1)<<||.Wait()>>  # BUG
else: pass
if me == 1: comm.<<Recv||Recv>>(b, left, 1)  # BUG
<<||>>"""),
    ("deadlock", "wrong_tag", 2, """
if me == 0: comm.send("x", dest=1, tag=<<7||17>>)
else: comm.recv(source=0, tag=17)  # BUG
comm.barrier()"""),
    ("deadlock", "ring_ssend", 3, """
comm.<<Ssend||Sendrecv>>(a, right<<||, 0, b, left, 0>>)  # BUG
<<comm.Recv(b, left)||pass>>"""),
    ("deadlock", "big_sends", 2, """
<<comm.Send(big, right)||q = comm.Isend(big, right)>>  # BUG
comm.Recv(big2, left)
<<||q.Wait()>>"""),
    ("deadlock", "barrier_missing", 3, """
if <<me != 0||True>>: comm.Barrier()  # BUG
if me == 0: <<comm.Recv(b, source=1, tag=5)||pass>>"""),
    ("deadlock", "wildcard_nobody", 3, """
if me == 0:
    for i in range(<<n||n - 1>>):
        comm.Recv(b, source=<<MPI.ANY_SOURCE||i + 1>>, tag=3)  # BUG
else: comm.Send(a, 0, tag=3)
comm.Barrier()"""),
    ("deadlock", "wait_irecv", 2, """
if me == 0: comm.Irecv(b, source=1, tag=<<4||3>>).Wait()  # BUG
else: comm.Send(a, 0, tag=3)
comm.Barrier()"""),
    ("deadlock", "waitall", 2, """
q = [comm.Irecv(b, source=left, tag=1), comm.Isend(a, dest=right, tag=<<2||1>>)]
MPI.Request.Waitall(q)  # BUG"""),
    ("deadlock", "probe", 2, """
if me == 0:
    comm.Probe(source=1, tag=<<9||3>>)  # BUG
    comm.Recv(b, source=1, tag=3)
else: comm.Send(a, 0, tag=3)
comm.Barrier()"""),
    ("deadlock", "ibarrier", 2, """
if me == 0 <<||or True>>: comm.Ibarrier().Wait()  # BUG
if me == 1: <<comm.Recv(b, source=0, tag=8)||pass>>"""),
    ("deadlock", "crossed_comms", 2, """
x, y = comm.Dup(), comm.Dup()
if me == 0: x.Barrier(); y.Barrier()  # BUG
else: <<y.Barrier(); x.Barrier()||x.Barrier(); y.Barrier()>>
x.Free(); y.Free()"""),
    ("deadlock", "ssend_self", 1, """
<<comm.Ssend(a, 0)||q = comm.Isend(a, 0)>>  # BUG
comm.Recv(b, 0)
<<||q.Wait()>>"""),
    ("potential-deadlock", "send_send", 2, """
<<comm.Send(a, right)||q = comm.Isend(a, right)>>  # BUG
comm.Recv(b, left)
<<||q.Wait()>>"""),
    ("potential-deadlock", "object_sends", 3, """
<<comm.send(me, dest=right)||q = comm.isend(me, dest=right)>>  # BUG
comm.recv(source=left)
<<||q.wait()>>"""),
    ("potential-deadlock", "send_over_barrier", 2, """
if me == 0: comm.Send(a, 1)  # BUG
<<comm.Barrier()||pass>>
if me == 1: comm.Recv(b, 0)
<<||comm.Barrier()>>"""),
    ("potential-deadlock", "wildcard_then_named", 3, """
if me == 0:
    comm.Recv(b, <<MPI.ANY_SOURCE||2>>, 1)  # BUG
    comm.Recv(b, 1, 1)  # BUG
if me == 1: time.sleep(1)
if me: comm.Send(a, 0, 1)"""),
    ("potential-deadlock", "object_wildcard_then_named", 3, """
if me == 0:
    comm.recv(source=<<MPI.ANY_SOURCE||2>>)  # BUG
    comm.recv(source=1)
if me == 1: time.sleep(1)
if me: comm.send(me, dest=0)"""),
    ("deadlock", "order_of_collectives", 2, """
x = np.zeros(1, "i"); y = np.zeros(1, "i")
if me == 0: comm.Barrier(); <<||comm.Bcast(x, 0)>>  # BUG
else: <<comm.Bcast(x, 1)||comm.Barrier(); comm.Bcast(x, 0)>>  # BUG"""),
    ("deadlock", "reduce_allreduce", 2, """
if me == 0: comm.<<Reduce||Allreduce>>(a, b)  # BUG
else: comm.Allreduce(a, b)"""),
    ("argument-mismatch", "bcast_root", 2, """
comm.Bcast(a, root=<<me||0>>)  # BUG"""),
    ("argument-mismatch", "allreduce_op", 2, """
comm.Allreduce(a, b, op=<<MPI.SUM if me else MPI.MAX||MPI.SUM>>)  # BUG"""),
    ("argument-mismatch", "bcast_count", 2, """
comm.Bcast([a, <<2 if me == 0 else 4||4>>, MPI.INT], root=0)  # BUG"""),
    ("type-mismatch", "int_float", 2, """
if me == 0: comm.Send([a, 4, MPI.INT], 1)  # BUG
else: comm.Recv([b, 4, MPI.<<FLOAT||INT>>], 0)"""),
    ("type-mismatch", "double_long", 2, """
if me == 0: comm.Isend([d, 4, MPI.<<DOUBLE||LONG>>], 1).Wait()  # BUG
else: comm.Irecv([d, 4, MPI.LONG], 0).Wait()"""),
    ("truncation", "short_receive", 2, """
try:
    if me == 0: comm.Send([a, 4, MPI.INT], 1)
    else: comm.Recv([b, <<2||4>>, MPI.INT], 0)  # BUG
except MPI.Exception: pass"""),
    ("unmatched-send", "nobody", 2, """
if me == 0: comm.Send(a, 1, tag=3)  # BUG
if me == 1: <<pass||comm.Recv(b, 0, tag=3)>>"""),
    ("unmatched-send", "one_too_many", 2, """
for i in range(3):
    if me == 0: comm.send(i, dest=1, tag=3)  # BUG
for i in range(<<2||3>>):
    if me == 1: comm.recv(source=0, tag=3)"""),
    ("unmatched-receive", "cancelled_never", 2, """
if me == 0:
    q = comm.Irecv(b, source=1, tag=3)  # BUG
    if <<False||True>>: q.Cancel(); q.Wait()
    else: q.Free()
comm.Barrier()"""),
    ("request-leak", "isend", 2, """
if me == 0:
    q = comm.Isend(a, 1)  # BUG
    <<pass||q.Wait()>>
else: comm.Recv(b, 0)
comm.Barrier()"""),
    ("request-leak", "irecv", 2, """
if me == 0: comm.Send(a, 1)
else:
    q = comm.Irecv(b, 0)  # BUG
    <<pass||q.Wait()>>
comm.Barrier()"""),
    ("request-leak", "persistent", 2, """
q = comm.Send_init(a, right) if me == 0 else comm.Recv_init(b, left)  # BUG
q.Start(); q.Wait()
<<pass||q.Free()>>
comm.Barrier()"""),
    ("request-misuse", "never_started", 2, """
q = comm.Recv_init(b, left)  # BUG
<<pass||s = comm.Isend(a, right); q.Start(); q.Wait(); s.Wait()>>
q.Free()
comm.Barrier()"""),
    ("request-misuse", "freed_active", 2, """
if me == 0: comm.Send(a, 1)
else:
    q = comm.Irecv(b, 0)
    q.<<Free||Wait>>()  # BUG
comm.Barrier()"""),
    ("buffer-reuse", "two_receives", 2, """
if me == 0: comm.Send(a, 1, 1); comm.Send(a, 1, 2)
else: MPI.Request.Waitall([comm.Irecv(b, 0, 1), comm.Irecv(<<b||np.zeros(4, "i")>>, 0, 2)])  # BUG"""),
    ("buffer-reuse", "changed", 2, """
if me == 0:
    q = comm.Issend(a, 1)
    <<a[0] = 77||pass>>
    q.Wait()  # BUG
else: time.sleep(0.1); comm.Recv(b, 0)"""),
    ("buffer-reuse", "receive_written", 2, """
if me == 0: time.sleep(0.1); comm.Send(a, 1)
else:
    q = comm.Irecv(b, 0)
    <<b[3] = 77||pass>>
    while not q.Test(): pass  # BUG"""),
    ("buffer-reuse", "receive_that_had_come", 2, """
if me == 0:
    q = comm.Isend(a, 1, 1)
    comm.Send(a, 1, 2)
    q.Wait()
else:
    comm.Recv(d.view("i"), 0, 2)
    q = comm.Irecv(b, 0, 1)
    <<b[0] = 77||pass>>
    q.Wait()  # BUG
    b[0] = 78"""),
    ("buffer-reuse", "put_origin_changed", 2, """
w = MPI.Win.Create(b, comm=comm)
w.Fence()
w.Put(a, right)
<<a[2] = 9||pass>>
w.Fence()  # BUG
a[2] = 10
w.Free()"""),
    ("buffer-reuse", "send_from_receive", 2, """
if me == 0: comm.Send(a, 1, 1); comm.Recv(b, 1, 2)
else:
    q = comm.Irecv(b, 0, 1)
    comm.Send(<<b||a>>, 0, 2)  # BUG
    q.Wait()"""),
    ("buffer-reuse", "other_waited", 2, """
c = np.zeros(4, "i")
if me == 0:
    q = [comm.Isend(a, 1, 1), comm.Isend(b, 1, 2)]
    q[<<0||1>>].Wait()
    r = comm.Irecv(b, 1, 3)  # BUG
    r.Wait()
    q[<<1||0>>].Wait()
else: comm.Recv(c, 0, 1); comm.Recv(c, 0, 2); comm.Send(a, 0, 3)"""),
    ("resource-leak", "comm", 2, """
x = comm.Split(me % 2, me)  # BUG
<<pass||x.Free()>>"""),
    ("resource-leak", "type", 2, """
x = MPI.INT.Create_vector(2, 1, 2).Commit()  # BUG
<<pass||x.Free()>>"""),
    ("resource-leak", "group", 2, """
x = comm.Get_group()  # BUG
<<pass||x.Free()>>"""),
    ("resource-leak", "op", 2, """
x = MPI.Op.Create(lambda p, q, t: None)  # BUG
<<pass||x.Free()>>"""),
    ("resource-leak", "info", 2, """
x = MPI.Info.Create()  # BUG
<<pass||x.Free()>>"""),
    ("resource-leak", "window", 2, """
x = MPI.Win.Create(a, comm=comm)  # BUG
<<pass||x.Free()>>"""),
    ("resource-leak", "file", 2, """
x = MPI.File.Open(comm, "data.bin", MPI.MODE_CREATE | MPI.MODE_RDWR)  # BUG
<<pass||x.Close()>>"""),
    ("invalid-argument", "rank", 2, """
try: comm.Send(a, <<n||MPI.PROC_NULL>>)  # BUG
except MPI.Exception: pass"""),
    ("invalid-argument", "tag", 2, """
try: comm.Isend(a, MPI.PROC_NULL if <<False||True>> else right, <<-5||5>>).Wait()  # BUG
except MPI.Exception: pass"""),
    ("invalid-argument", "root", 2, """
try: comm.Bcast(a, root=<<n + 3||0>>)  # BUG
except MPI.Exception: pass"""),
    ("invalid-argument", "uncommitted", 2, """
x = MPI.INT.Create_contiguous(2)
<<pass||x.Commit()>>
try:
    if me == 0: comm.Send([a, 1, x], 1)  # BUG
    elif not <<True||False>>: comm.Recv(b, 0)
except MPI.Exception: pass
x.Free()"""),
    ("invalid-argument", "op_on_type", 2, """
try: comm.Allreduce([d, 4, MPI.DOUBLE], [np.zeros(4), 4, MPI.DOUBLE], op=MPI.<<BAND||SUM>>)  # BUG
except MPI.Exception: pass"""),
    ("epoch-misuse", "no_epoch", 2, """
w = MPI.Win.Create(b, comm=comm)
w.Fence()
w.Fence(MPI.MODE_NOSUCCEED)
if me == 0:
    <<pass||w.Lock(1)>>
    try: w.<<Flush||Flush>>(1)  # BUG
    except MPI.Exception: pass
    <<pass||w.Unlock(1)>>
w.Free()"""),
    ("rma-race", "two_puts", 3, """
w = MPI.Win.Create(b, comm=comm)
w.Fence()
if me: w.Put([a, 1, MPI.INT], 0, target=(<<0||4 * (me - 1)>>, 1, MPI.INT))  # BUG
w.Fence()
w.Free()"""),
    ("rma-race", "shared_locks", 3, """
w = MPI.Win.Create(b, comm=comm)
if me:
    w.Lock(0, MPI.LOCK_<<SHARED||EXCLUSIVE>>)
    w.Put([a, 1, MPI.INT], 0)  # BUG
    w.Unlock(0)
w.Free()"""),
]  # fmt: skip

C_TEMPLATES = [
    ("deadlock", "recv_recv", 2, """
  <<MPI_Recv(b, 4, MPI_INT, left, 1, comm, MPI_STATUS_IGNORE); /* BUG */||MPI_Irecv(b, 4, MPI_INT, left, 1, comm, &r);>>
  MPI_Send(a, 4, MPI_INT, right, 1, comm);
  <<||MPI_Wait(&r, MPI_STATUS_IGNORE);>>"""),
    ("deadlock", "ssend_ring", 3, """
  <<MPI_Ssend(a, 4, MPI_INT, right, 1, comm); /* BUG */||MPI_Issend(a, 4, MPI_INT, right, 1, comm, &r);>>
  MPI_Recv(b, 4, MPI_INT, left, 1, comm, MPI_STATUS_IGNORE);
  <<||MPI_Wait(&r, MPI_STATUS_IGNORE);>>"""),
    ("deadlock", "wrong_source", 3, """
  if (me == 0) MPI_Recv(b, 4, MPI_INT, <<2||1>>, 1, comm, MPI_STATUS_IGNORE); /* BUG */
  if (me == 1) MPI_Send(a, 4, MPI_INT, 0, 1, comm);
  MPI_Barrier(comm);"""),
    ("deadlock", "waitany", 2, """
  int i;
  if (me == 0) {
    MPI_Irecv(b, 4, MPI_INT, 1, <<5||1>>, comm, rs);
    MPI_Waitany(1, rs, &i, MPI_STATUS_IGNORE); /* BUG */
  } else MPI_Send(a, 4, MPI_INT, 0, 1, comm);
  MPI_Barrier(comm);"""),
    ("deadlock", "persistent", 2, """
  MPI_Recv_init(b, 4, MPI_INT, left, <<2||1>>, comm, &r);
  MPI_Start(&r);
  MPI_Send(a, 4, MPI_INT, right, 1, comm);
  MPI_Wait(&r, MPI_STATUS_IGNORE); /* BUG */
  MPI_Request_free(&r);"""),
    ("deadlock", "barrier_finalize", 3, """
  if (<<me||1>>) MPI_Barrier(comm); /* BUG */"""),
    ("deadlock", "scatter_missing", 3, """
  if (<<me != 2||1>>) MPI_Allgather(a, 1, MPI_INT, b, 1, MPI_INT, comm); /* BUG */
  <<if (me == 2) MPI_Recv(b, 1, MPI_INT, 0, 9, comm, MPI_STATUS_IGNORE);||>>"""),
    ("deadlock", "sendrecv", 2, """
  MPI_Sendrecv(a, 4, MPI_INT, right, 1, b, 4, MPI_INT, left, <<2||1>>, comm, MPI_STATUS_IGNORE); /* BUG */"""),
    ("deadlock", "fence", 2, """
  MPI_Win w;
  MPI_Win_create(b, sizeof b, sizeof(int), MPI_INFO_NULL, comm, &w);
  if (<<me == 0||1>>) MPI_Win_fence(0, w); /* BUG */
  <<if (me) MPI_Recv(b, 1, MPI_INT, 0, 9, comm, MPI_STATUS_IGNORE);||>>
  MPI_Win_free(&w);"""),
    ("potential-deadlock", "send_send", 2, """
  <<MPI_Send(a, 4, MPI_INT, right, 1, comm); /* BUG */||MPI_Isend(a, 4, MPI_INT, right, 1, comm, &r);>>
  MPI_Recv(b, 4, MPI_INT, left, 1, comm, MPI_STATUS_IGNORE);
  <<||MPI_Wait(&r, MPI_STATUS_IGNORE);>>"""),
    ("potential-deadlock", "isend_wait", 3, """
  MPI_Isend(a, 4, MPI_INT, right, 1, comm, &r); /* BUG */
  <<MPI_Wait(&r, MPI_STATUS_IGNORE);||>>
  MPI_Recv(b, 4, MPI_INT, left, 1, comm, MPI_STATUS_IGNORE);
  <<||MPI_Wait(&r, MPI_STATUS_IGNORE);>>"""),
    ("potential-deadlock", "wildcard_then_named", 3, """
  if (me == 0) {
    MPI_Irecv(a, 4, MPI_INT, <<MPI_ANY_SOURCE||2>>, 1, comm, rs); /* BUG */
    MPI_Wait(rs, MPI_STATUS_IGNORE);
    MPI_Recv(b, 4, MPI_INT, 1, 1, comm, MPI_STATUS_IGNORE); /* BUG */
  }
  if (me == 1) usleep(300000);
  if (me) MPI_Send(a, 4, MPI_INT, 0, 1, comm);"""),
    ("potential-deadlock", "wildcard_then_tag", 3, """
  if (me == 0) {
    MPI_Recv(b, 4, MPI_INT, MPI_ANY_SOURCE, <<MPI_ANY_TAG||5>>, comm, MPI_STATUS_IGNORE); /* BUG */
    MPI_Recv(b, 4, MPI_INT, MPI_ANY_SOURCE, 7, comm, MPI_STATUS_IGNORE); /* BUG */
  }
  if (me == 1) { usleep(300000); MPI_Send(a, 4, MPI_INT, 0, 7, comm); }
  if (me == 2) MPI_Send(a, 4, MPI_INT, 0, 5, comm);"""),
    ("collective-mismatch", "barrier_reduce", 3, """
  if (me == 1) <<MPI_Reduce(a, b, 1, MPI_INT, MPI_SUM, 0, comm)||MPI_Barrier(comm)>>; /* BUG */
  else MPI_Barrier(comm);"""),
    ("argument-mismatch", "reduce_root", 3, """
  MPI_Reduce(a, b, 1, MPI_INT, MPI_SUM, <<me == 2 ? 1 : 0||0>>, comm); /* BUG */"""),
    ("argument-mismatch", "ireduce_op", 2, """
  MPI_Iallreduce(a, b, 1, MPI_INT, <<me ? MPI_MAX : MPI_SUM||MPI_SUM>>, comm, &r); /* BUG */
  MPI_Wait(&r, MPI_STATUS_IGNORE);"""),
    ("argument-mismatch", "gather_count", 2, """
  MPI_Gather(a, <<me ? 1 : 2||2>>, MPI_INT, b, 2, MPI_INT, 0, comm); /* BUG */"""),
    ("type-mismatch", "int_float", 2, """
  if (me == 0) MPI_Send(a, 2, MPI_INT, 1, 1, comm); /* BUG */
  else MPI_Recv(b, 2, MPI_<<FLOAT||INT>>, 0, 1, comm, MPI_STATUS_IGNORE);"""),
    ("type-mismatch", "derived", 2, """
  MPI_Datatype t;
  MPI_Type_contiguous(2, MPI_INT, &t); MPI_Type_commit(&t);
  if (me == 0) MPI_Send(a, 1, t, 1, 1, comm); /* BUG */
  else MPI_Recv(b, <<1, MPI_DOUBLE||2, MPI_INT>>, 0, 1, comm, MPI_STATUS_IGNORE);
  MPI_Type_free(&t);"""),
    ("truncation", "recv", 2, """
  if (me == 0) MPI_Send(a, 4, MPI_INT, 1, 1, comm);
  else MPI_Recv(b, <<2||4>>, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE); /* BUG */"""),
    ("unmatched-send", "nobody", 2, """
  if (me == 0) MPI_Send(a, 4, MPI_INT, 1, 1, comm); /* BUG */
  <<||if (me == 1) MPI_Recv(b, 4, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);>>"""),
    ("request-leak", "isend", 2, """
  if (me == 0) { MPI_Isend(a, 4, MPI_INT, 1, 1, comm, &r); /* BUG */
    <<||MPI_Wait(&r, MPI_STATUS_IGNORE);>> }
  else MPI_Recv(b, 4, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);"""),
    ("request-leak", "irecv_loop", 2, """
  for (int i = 0; i < 5; i++) {
    if (me == 0) MPI_Send(a, 1, MPI_INT, 1, i, comm);
    else { MPI_Irecv(b + i, 1, MPI_INT, 0, i, comm, &r); /* BUG */
      <<||MPI_Wait(&r, MPI_STATUS_IGNORE);>> }
  }
  MPI_Barrier(comm);"""),
    ("request-misuse", "started_twice", 2, """
  if (me == 0) { MPI_Send(a, 1, MPI_INT, 1, 1, comm); MPI_Send(a, 1, MPI_INT, 1, 1, comm); }
  else {
    MPI_Recv_init(b, 1, MPI_INT, 0, 1, comm, &r);
    MPI_Start(&r);
    <<||MPI_Wait(&r, MPI_STATUS_IGNORE);>>
    MPI_Start(&r); /* BUG */
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Request_free(&r);
    <<MPI_Recv(b, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);||>>
  }"""),
    ("request-misuse", "copied_send", 2, """
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (me == 0) {
    MPI_Issend(a, 4, MPI_INT, 1, 1, comm, &r);
    <<q = r||q = MPI_REQUEST_NULL>>;
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Wait(&q, MPI_STATUS_IGNORE); /* BUG */
  } else MPI_Recv(b, 4, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);"""),
    ("request-misuse", "copied_receive_fatal", 2, """
  int f;
  if (me == 0) { MPI_Irecv(b, 4, MPI_INT, 1, 1, comm, &r);
    q = r;
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Test(<<&q||&r>>, &f, MPI_STATUS_IGNORE); /* BUG */
  } else MPI_Send(a, 4, MPI_INT, 0, 1, comm);"""),
    ("request-misuse", "freed_twice", 2, """
  MPI_Recv_init(b, 4, MPI_INT, MPI_PROC_NULL, 1, comm, &r);
  MPI_Start(&r);
  MPI_Wait(&r, MPI_STATUS_IGNORE);
  q = r;
  MPI_Request_free(&r);
  <<MPI_Request_free(&q);||>> /* BUG */"""),
    ("request-misuse", "copied_in_waitall", 2, """
  if (me == 0) {
    MPI_Irecv(b, 2, MPI_INT, 1, 1, comm, rs);
    MPI_Irecv(b + 2, 2, MPI_INT, 1, 2, comm, rs + 1);
    rs[2] = <<rs[1]||MPI_REQUEST_NULL>>;
    MPI_Wait(rs + 1, MPI_STATUS_IGNORE);
    MPI_Waitall(3, rs, MPI_STATUSES_IGNORE); /* BUG */
  } else { MPI_Send(a, 2, MPI_INT, 0, 1, comm); MPI_Send(a, 2, MPI_INT, 0, 2, comm); }"""),
    ("buffer-reuse", "overlap", 2, """
  if (me == 0) { MPI_Send(a, 4, MPI_INT, 1, 1, comm); MPI_Send(a, 4, MPI_INT, 1, 2, comm); }
  else {
    MPI_Irecv(b, 4, MPI_INT, 0, 1, comm, rs);
    MPI_Irecv(b + <<2||4>>, 4, MPI_INT, 0, 2, comm, rs + 1); /* BUG */
    MPI_Waitall(2, rs, MPI_STATUSES_IGNORE);
  }"""),
    ("buffer-reuse", "changed", 2, """
  if (me == 0) {
    MPI_Isend(big, 1048576, MPI_INT, 1, 1, comm, &r);
    <<big[0] = 9;||>>
    MPI_Wait(&r, MPI_STATUS_IGNORE); /* BUG */
  } else { usleep(100000); MPI_Recv(big2, 1048576, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE); }"""),
    ("buffer-reuse", "other_waited", 2, """
  if (me == 0) {
    MPI_Isend(a, 4, MPI_INT, 1, 1, comm, rs);
    MPI_Isend(b, 4, MPI_INT, 1, 2, comm, rs + 1);
    MPI_Wait(rs + <<0||1>>, MPI_STATUS_IGNORE);
    MPI_Irecv(b, 4, MPI_INT, 1, 3, comm, &r); /* BUG */
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    MPI_Wait(rs + <<1||0>>, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(big, 4, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);
    MPI_Recv(big, 4, MPI_INT, 0, 2, comm, MPI_STATUS_IGNORE);
    MPI_Send(a, 4, MPI_INT, 0, 3, comm);
  }"""),
    ("resource-leak", "comm", 2, """
  MPI_Comm x;
  MPI_Comm_split(comm, me, 0, &x); /* BUG */
  <<||MPI_Comm_free(&x);>>"""),
    ("resource-leak", "type", 2, """
  MPI_Datatype x;
  MPI_Type_vector(2, 1, 2, MPI_INT, &x); /* BUG */
  <<||MPI_Type_free(&x);>>"""),
    ("resource-leak", "group_twice", 2, """
  MPI_Group x, y;
  MPI_Comm_group(comm, &x); /* BUG */
  MPI_Comm_group(comm, &y); /* the same handle: which of the two references is left is not to be told */
  MPI_Group_free(&x);
  <<||MPI_Group_free(&y);>>"""),
    ("invalid-argument", "rank", 2, """
  MPI_Send(a, 4, MPI_INT, <<n||MPI_PROC_NULL>>, 1, comm); /* BUG */"""),
    ("invalid-argument", "count", 2, """
  MPI_Send(a, <<-1||0>>, MPI_INT, MPI_PROC_NULL, 1, comm); /* BUG */"""),
    ("invalid-argument", "tag", 2, """
  if (me == 0) MPI_Send(a, 1, MPI_INT, 1, <<-3||3>>, comm); /* BUG */
  <<||else MPI_Recv(b, 1, MPI_INT, 0, 3, comm, MPI_STATUS_IGNORE);>>"""),
    ("invalid-argument", "type_null", 2, """
  MPI_Bcast(a, 1, <<MPI_DATATYPE_NULL||MPI_INT>>, 0, comm); /* BUG */"""),
    ("invalid-argument", "alias", 2, """
  MPI_Allreduce(<<b||MPI_IN_PLACE>>, b, 1, MPI_INT, MPI_SUM, comm); /* BUG */"""),
    ("invalid-argument", "comm_null", 2, """
  MPI_Barrier(<<MPI_COMM_NULL||comm>>); /* BUG */"""),
    ("buffer-reuse", "icollective_changed", 2, """
  MPI_Iallreduce(a, b, 4, MPI_INT, MPI_SUM, comm, &r);
  <<a[1] = 9;||>>
  MPI_Wait(&r, MPI_STATUS_IGNORE); /* BUG */"""),
    ("buffer-reuse", "persistent_receive_written", 2, """
  MPI_Recv_init(b, 4, MPI_INT, left, 1, comm, &q);
  for (int i = 0; i < 3; i++) {
    MPI_Barrier(comm);
    MPI_Start(&q);
    <<b[1] = 70 + i;||>>
    a[1] = i;
    usleep(50000);
    MPI_Send(a, 4, MPI_INT, right, 1, comm);
    MPI_Wait(&q, MPI_STATUS_IGNORE); /* BUG */
    b[1] = 80 + i;
  }
  MPI_Request_free(&q);"""),
    ("buffer-reuse", "put_origin_changed", 2, """
  MPI_Win w;
  MPI_Win_create(b, sizeof b, sizeof(int), MPI_INFO_NULL, comm, &w);
  MPI_Win_lock_all(0, w);
  MPI_Put(a, 4, MPI_INT, right, 0, 4, MPI_INT, w);
  <<a[2] = 9;||>>
  MPI_Win_flush(right, w); /* BUG */
  a[2] = 10;
  MPI_Win_unlock_all(w);
  MPI_Win_free(&w);"""),
    ("buffer-reuse", "accumulate_origin_changed", 2, """
  MPI_Win w;
  MPI_Win_create(b, sizeof b, sizeof(int), MPI_INFO_NULL, comm, &w);
  MPI_Win_fence(0, w);
  MPI_Accumulate(a, 4, MPI_INT, right, 0, 4, MPI_INT, MPI_SUM, w);
  <<a[0]++;||>>
  MPI_Win_fence(0, w); /* BUG */
  a[0]++;
  MPI_Win_free(&w);"""),
    ("rma-race", "store_and_get", 2, """
  MPI_Win w;
  MPI_Win_create(b, sizeof b, sizeof(int), MPI_INFO_NULL, comm, &w);
  MPI_Win_fence(0, w);
  if (me == 0) MPI_Get(a, 2, MPI_INT, 1, 1, 2, MPI_INT, w); /* BUG */
  else b[<<2||3>>] = 9;
  MPI_Win_fence(0, w);
  b[2] = 10 + me;
  MPI_Win_fence(0, w);
  if (me == 0) MPI_Get(a, 2, MPI_INT, 1, 1, 2, MPI_INT, w);
  MPI_Win_fence(0, w);
  MPI_Win_free(&w);"""),
    ("rma-race", "store_and_put", 2, """
  int *mine;
  MPI_Win w;
  MPI_Win_allocate(32, sizeof(int), MPI_INFO_NULL, comm, &mine, &w);
  for (int i = 0; i < 8; i++) mine[i] = 0;
  for (int i = 0; i < 20; i++) {
    MPI_Win_fence(0, w);
    if (me == 0) { usleep(20000); a[0] = 50 + i; MPI_Put(a, 1, MPI_INT, 1, 1, 1, MPI_INT, w); } /* BUG */
    else mine[<<1||2>>] = 9;
    MPI_Win_fence(0, w);
  }
  MPI_Win_free(&w);"""),
    ("buffer-reuse", "bcast_on_pending", 2, """
  MPI_Irecv(a, 4, MPI_INT, left, 1, comm, &r);
  MPI_Bcast(<<a||b>>, 4, MPI_INT, 0, comm); /* BUG */
  MPI_Send(b, 4, MPI_INT, right, 1, comm);
  MPI_Wait(&r, MPI_STATUS_IGNORE);"""),
    ("buffer-reuse", "two_gets", 2, """
  MPI_Win w;
  MPI_Win_create(b, sizeof b, sizeof(int), MPI_INFO_NULL, comm, &w);
  MPI_Win_fence(0, w);
  MPI_Get(a, 1, MPI_INT, right, 0, 1, MPI_INT, w);
  MPI_Get(a <<||+ 1>>, 1, MPI_INT, right, 2, 1, MPI_INT, w); /* BUG */
  MPI_Win_fence(0, w);
  MPI_Win_free(&w);"""),
    ("argument-mismatch", "scatter_type", 2, """
  MPI_Scatter(a, 2, MPI_INT, b, 2, <<me ? MPI_FLOAT : MPI_INT||MPI_INT>>, 0, comm); /* BUG */"""),
    ("deadlock", "partition_not_ready", 2, """
  if (me == 0) {
    MPI_Psend_init(a, 2, 4, MPI_INT, 1, 1, comm, MPI_INFO_NULL, &r);
    MPI_Start(&r);
    MPI_Pready(0, r);
    <<||MPI_Pready(1, r);>>
  } else {
    MPI_Precv_init(a, 2, 4, MPI_INT, 0, 1, comm, MPI_INFO_NULL, &r);
    MPI_Start(&r);
  }
  MPI_Wait(&r, MPI_STATUS_IGNORE); /* BUG */
  MPI_Request_free(&r);"""),
    ("deadlock", "intercomm_tags", 2, """
  MPI_Comm half, inter;
  MPI_Comm_split(comm, me, 0, &half);
  MPI_Intercomm_create(half, 0, comm, 1 - me, <<7 + me||7>>, &inter); /* BUG */
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);"""),
    ("invalid-argument", "dims", 2, """
  MPI_Comm c;
  int dims[1] = {<<3||2>>}, periods[1] = {0};
  MPI_Cart_create(comm, 1, dims, periods, 0, &c); /* BUG */
  MPI_Comm_free(&c);"""),
    ("invalid-argument", "null_buffer", 2, """
  if (me == 0) MPI_Send(<<NULL||a>>, 4, MPI_INT, 1, 1, comm); /* BUG */
  else MPI_Recv(b, 4, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE);"""),
    ("epoch-misuse", "unlock", 2, """
  MPI_Win w;
  MPI_Win_create(b, sizeof b, sizeof(int), MPI_INFO_NULL, comm, &w);
  MPI_Win_set_errhandler(w, MPI_ERRORS_RETURN);
  <<||MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w);>>
  MPI_Win_unlock(0, w); /* BUG */
  MPI_Win_free(&w);"""),
    ("rma-race", "put_get", 3, """
  MPI_Win w;
  MPI_Win_create(b, sizeof b, sizeof(int), MPI_INFO_NULL, comm, &w);
  MPI_Win_fence(0, w);
  if (me == 1) MPI_Put(a, 1, MPI_INT, 0, 0, 1, MPI_INT, w); /* BUG */
  <<||MPI_Win_fence(0, w);>>
  if (me == 2) MPI_Get(a, 1, MPI_INT, 0, 0, 1, MPI_INT, w); /* BUG */
  MPI_Win_fence(0, w);
  MPI_Win_free(&w);"""),
]  # fmt: skip


LANGUAGES = {
    "py": (PYTHON, [*PY_TEMPLATES, *PY_CAUSES, *PY_STANDARD, *PY_REPORTED, *PY_PUBLIC, *PY_SCREENS]),
    "c": (
        C,
        [*C_TEMPLATES, *C_MEMORY, *C_ONESIDED, *C_CAUSES, *C_FRESH, *C_STANDARD, *C_REPORTED, *C_PUBLIC, *C_SCREENS],
    ),
    "f": (FORTRAN, [*FORTRAN_TEMPLATES, *FORTRAN_STANDARD, *FORTRAN_SCREENS]),
}
LAUNCHERS = {"mpich": ["mpiexec.mpich"], "openmpi": ["mpiexec.openmpi", "--allow-run-as-root", "--oversubscribe"]}
"""Of the system's MPIs, which have Fortran."""


@dataclass(frozen=True)
class Program:
    """One program: `bug` says which of the two it is."""

    kind: str
    name: str
    language: str
    setup: str
    ranks: int
    bug: bool
    source: str

    @property
    def title(self) -> str:
        """`c/deadlock/recv_recv/dup/twin`."""
        return f"{self.language}/{self.kind}/{self.name}/{self.setup}/{'bug' if self.bug else 'twin'}"

    @property
    def place(self) -> str:
        """A folder's name for it."""
        return self.title.replace("/", "-")

    @property
    def lines(self) -> set[int]:
        """The lines that a finding should name."""
        return {number for number, text in enumerate(self.source.splitlines(), 1) if "BUG" in text}

    def verdicts(self, findings: Sequence[Finding]) -> Iterator[tuple[str, str]]:
        """The title, and `ok` or what is wrong with the findings."""
        yield self.title, self._verdict(findings)

    def _verdict(self, findings: Sequence[Finding]) -> str:
        loud = [f for f in findings if f.severity != "note"]
        if not self.bug:
            return "ok" if not loud else f"false alarm: {loud[0].kind}: {loud[0].message}"
        right = [f for f in findings if f.kind == self.kind]
        if not right:
            return "missed" + (f" (found {', '.join(sorted({f.kind for f in loud}))})" if loud else "")
        unnamed = self.lines - {site.line for f in right for site in f.sites}
        return "ok" if not unnamed else f"line {min(unnamed)} is not named: {right[0].message}"


def programs() -> Iterator[Program]:
    """Every program, each bug followed by its twin."""
    for language, (frame, templates) in LANGUAGES.items():
        for kind, name, ranks, body in templates:
            for setup, (before, after) in {**SETUPS, "f": FORTRAN_SETUPS}[language].items():
                for bug in (True, False):
                    text = re.sub(r"<<(.*?)\|\|(.*?)>>", r"\1" if bug else r"\2", body, flags=re.S)
                    source = frame.format(setup=before, teardown=after, body=text)
                    yield Program(kind, name, language, setup, ranks, bug, source)


def race_programs() -> Iterator[RaceProgram]:
    """The programs that hold the situations of message races."""
    for language in SETUPS:
        yield RaceProgram(language)


def spread(only: str, pairs: int | None) -> Iterator[Program | RaceProgram]:
    """The programs whose title contains a text, or so many pairs of a bug and its twin, evenly from all of those."""
    wanted = [program for program in programs() if only in program.title]
    by_pair = [list(pair) for _, pair in groupby(wanted, lambda program: program.title.rsplit("/", 1)[0])]
    count = min(pairs or len(by_pair), len(by_pair))
    for k in range(count):
        yield from by_pair[k * len(by_pair) // count]
    yield from (program for program in race_programs() if only in program.title)


def build(program: Program | RaceProgram, folder: Path, venv: Path) -> list[str]:
    """Write a program into a folder that is its own, compile it once, and say how `weft run` is to start it."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"prog.{'f90' if program.language == 'f' else program.language}"
    built = folder / "prog"
    mpi = next(name for name, where in VENVS.items() if where == venv)
    compilers = {"c": [str(venv / "bin/mpicc"), "-g", "-O0"], "f": [f"mpif90.{mpi}", *FORTRAN_OPTIONS]}
    with BUILDING:
        if not source.exists():
            source.write_text(program.source)
        if program.language in compilers and not built.exists():
            subprocess.run([*compilers[program.language], "-o", built, source], check=True, capture_output=True)
    if program.language == "f":
        return ["--", *LAUNCHERS[mpi], "-n", str(program.ranks), str(built)]
    if program.language == "c":
        return ["-n", str(program.ranks), "--", str(built)]
    return ["-n", str(program.ranks), "--", str(venv / "bin/python"), str(source)]


def recorded_by(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Run `weft` with words as a program of its own; what it says on standard error."""
    line = [str(Path(environment["PATH"].split(":")[0]) / "weft"), *words]
    done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, timeout=LIMIT, check=False)
    return done.stderr.decode(errors="replace")


def recorded_here(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """The same in this process, which does nothing else before or after (see `campaign`)."""
    os.chdir(folder)
    os.environ.update(environment)
    said = folder / f"said-{os.getpid()}"
    kept = [os.dup(target) for target in (0, 1, 2)]
    for target, opened in enumerate([os.open(os.devnull, os.O_RDONLY), *[os.open(said, os.O_RDWR | os.O_CREAT)] * 2]):
        os.dup2(opened, target)
    signal.alarm(LIMIT)
    try:
        weft_main(words)
    finally:
        signal.alarm(0)
        sys.stdout.flush()
        sys.stderr.flush()
        for target, before in enumerate(kept):
            os.dup2(before, target)
    text = said.read_text(errors="replace")
    said.unlink()
    return text


Recorded = Callable[[Sequence[str], Path, Mapping[str, str]], str]


def record(
    program: Program | RaceProgram, folder: Path, venv: Path, attempt: int = 0, by: Recorded = recorded_by
) -> Path:
    """Run a program under `weft run`; the run directory, one for each attempt."""
    command = build(program, folder, venv)
    run = f"run{attempt}"
    environment = {**os.environ, "PATH": f"{venv}/bin:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    said = by(["run", "--hang-after", "10", "--out", run, *command], folder, environment)
    if not (folder / run).is_dir():
        raise RuntimeError(f"not recorded: {said[-300:]!r}")
    return folder / run


def check(
    program: Program | RaceProgram, folder: Path, venv: Path, attempt: int = 0, by: Recorded = recorded_by
) -> list[tuple[str, str]]:
    """Run a program; each case's title and `ok` or what is wrong, which a program that could not be run is too."""
    try:
        run = record(program, folder / venv.name / program.place, venv, attempt, by)
        trace = weft.open(run)
        report = run_analyses(trace)
        unproven = [f.message for f in report.findings if not proven(trace, f)]
        if attempt:  # the first is kept, to be looked at
            shutil.rmtree(run)
    except Exception as error:
        return [(program.title, f"{type(error).__name__}: {error}")]
    if report.failures:
        return [(program.title, f"analysis failed: {f.analysis}: {f.error}") for f in report.failures]
    if unproven:
        return [(program.title, f"the proof does not hold: {message}") for message in unproven]
    return list(program.verdicts(report.findings))


Wanted = tuple[int, str, "Program | RaceProgram"]
"""The number of the run, the MPI, the program."""


def campaign(wanted: Sequence[Wanted], folder: Path, jobs: int) -> Iterator[tuple[Wanted, list[tuple[str, str]]]]:
    """Each with its verdicts, in turn. The first run, here, has all modules read that the forks then have."""
    first = {(mpi, program.place): program for _, mpi, program in wanted}
    with ThreadPoolExecutor(jobs) as pool:
        venvs = [VENVS[mpi] for mpi, _ in first]
        folders = [folder / venv.name / place for venv, (_, place) in zip(venvs, first, strict=True)]
        list(pool.map(build, first.values(), folders, venvs))
    _, mpi, program = wanted[0]
    check(program, folder / "first", VENVS[mpi])
    with get_context("fork").Pool(jobs, maxtasksperchild=1) as forks:
        jobs_of_forks = ((program, folder, VENVS[mpi], attempt, recorded_here) for attempt, mpi, program in wanted)
        yield from zip(wanted, forks.imap(_checked, jobs_of_forks), strict=True)


def _checked(job: tuple[Program | RaceProgram, Path, Path, int, Recorded]) -> list[tuple[str, str]]:
    return check(*job)


def proven(trace: Trace, finding: Finding) -> bool:
    """Whether the record bears a finding out, of the kinds whose evidence is a proof."""
    if finding.kind not in ("rma-race", "buffer-reuse") or finding.certainty == "undecided":
        return True
    return proof.is_evidence_confirmed(trace, finding.evidence, order_events(trace, match_operations(trace)))


def main() -> int:
    """Print the table; 1 when something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs whose title contains this")
    parser.add_argument("--pairs", type=int, help="only so many pairs of a bug and its twin, evenly from all")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=1, help="run each so often: it must be right each time")
    parser.add_argument("--mpi", choices=(*VENVS, "both"), default="mpich", help="the MPI from PyPI to run them on")
    parser.add_argument("--keep", type=Path, help="keep programs and runs in this folder")
    options = parser.parse_args()
    mpis = list(VENVS) if options.mpi == "both" else [options.mpi]
    chosen = list(spread(options.only, options.pairs))
    wanted = [(attempt, mpi, p) for attempt in range(options.repeat) for mpi in mpis for p in chosen]
    wrong = total = 0
    with tempfile.TemporaryDirectory() as temporary:
        for (attempt, mpi, _), rows in campaign(wanted, options.keep or Path(temporary), options.jobs):
            for title, verdict in rows:
                total += 1
                wrong += verdict != "ok"
                if verdict != "ok" or not attempt:
                    print(f"{mpi:<8} {title:<56} {verdict}" + (f" (run {attempt})" if attempt else ""), flush=True)
    ways = f"{len(chosen)} programs, {options.repeat} runs of each, {options.mpi}"
    print(f"{total - wrong} of {total} as they should be: {ways}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
