"""Files that are no runs: cores, configurations of probes, programs with directives of DVM, and what hosts packed."""

from __future__ import annotations

import json
import random
import shutil
import struct
from pathlib import Path

from fuzzed import damage
from fuzzed.runs import Act, Seeds, command

from weft.attach import cores
from weft.check.front_ends.c_dvmh import FRONT_END as C_DVMH
from weft.check.front_ends.fortran_dvm import FRONT_END as FORTRAN_DVM
from weft.check.value_traces import find_most_detailed_level
from weft.errors import UsageError, WeftError
from weft.inprocess.schedule_file import SCHEMA, read_schedule
from weft.launch.local import pack
from weft.launch.local.listener_address import ListenerAddress
from weft.tasks import schedule
from weft.values.configuration import read_configuration

CHECK = Path(__file__).parents[2] / "check"
CONFIGURATION = """
limit = "10 MB"
level = "full"
arrays = "hashes"
ranks = "0-3,8"
every = 2
relative = 1e-9
nan = "equal"
[file."a.c"]
level = "minimal"
[procedure."main"]
arrays = "statistics"
[loop."x"]
level = "modifications"
iterations = "0:100:10"
[region.r]
ranks = "0"
[probe.a]
exact = true
every = 3
iterations = "-5:"
[probe."b c"]
absolute = 0.5
ulps = 4
"""
PLACE = (
    b'{"name": "run-1-ab", "addresses": ["127.0.0.1", "::1"], "port": 4711, "secret": "'
    + b"ab" * 32
    + b'", "guest": false}'
)


def of_cores(seeds: Seeds, folder: Path, r: random.Random) -> Act:
    """The core file of a process, which may come from anybody."""
    file = folder / "core"
    file.write_bytes(damage.change(core(), r))
    if r.random() < 0.1 and shutil.which("gdb"):
        return command("attach", "--core", file)

    def act() -> str:
        try:
            cores.read_core(file)
        except UsageError:
            return "refused"
        return "read"

    return act


def core() -> bytes:
    """A small core file of /bin/true, rank 1 of 4 of an Open MPI job: two notes of memory behind its notes."""
    base, names, strings = 0x400000, b"/bin/true\0/usr/lib/libpython3.11.so.1.0\0", 0x7FFF0000
    environment = b"A=B\0OMPI_COMM_WORLD_RANK=1\0OMPI_COMM_WORLD_SIZE=4\0PMIX_NAMESPACE=job-1\0"
    memory = environment + b"./true\0"
    status = struct.pack("<iiih2xQQiiii", 11, 0, 0, 11, 0, 0, 4711, 1, 4711, 4711).ljust(336, b"\0")
    process = b"\0" * 24 + struct.pack("<i", 4711) + b"\0" * 108
    vector = [(3, base + 64), (4, 56), (5, 2), (31, strings + len(environment)), (0, 0)]
    files = struct.pack("<QQ", 2, 4096) + struct.pack("<6Q", base, base + 4096, 0, 2 * base, 3 * base, 0) + names
    held = [(1, status), (3, process), (6, b"".join(struct.pack("<QQ", *pair) for pair in vector)),
            (0x46494C45, files), (0x53494749, struct.pack("<iii", 11, 0, 1).ljust(128, b"\0"))]  # fmt: skip
    notes = b"".join(_note(kind, body) for kind, body in held)
    image = b"\x7fELF\x02\x01".ljust(64, b"\0")
    image += struct.pack("<IIQQQQQQ", 6, 4, 64, base + 64, 0, 112, 112, 8)
    image += (
        struct.pack("<IIQQQQQQ", 4, 4, 176, base + 176, 0, 36, 36, 4)
        + struct.pack("<III", 4, 20, 3)
        + b"GNU\0"
        + bytes(20)
    )
    at = 64 + 3 * 56
    rows = [(4, at, 0, len(notes)), (1, at + len(notes), strings, len(memory)),
            (1, at + len(notes) + len(memory), base, len(image))]  # fmt: skip
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, 3, 0, 0, 0
    )
    table = b"".join(
        struct.pack("<IIQQQQQQ", kind, 4, place, where, 0, size, size, 1) for kind, place, where, size in rows
    )
    return head + table + notes + memory + image


def _note(kind: int, body: bytes) -> bytes:
    return struct.pack("<III", 5, len(body), kind) + b"CORE\0\0\0\0" + body.ljust(-(-len(body) // 4) * 4, b"\0")


def of_configurations(seeds: Seeds, folder: Path, r: random.Random) -> Act:
    """What to keep of which probe, and how near values are to be."""
    file = folder / "probes.toml"
    data = bytearray(CONFIGURATION.encode())
    for _ in range(r.choice([0, 1, 2])):
        lines = data.splitlines(keepends=True)
        k = r.randrange(len(lines))
        key = lines[k].partition(b"=")[0]
        values = [b"nan", b"-inf", b"1e999", b"99999999999999999999999", b"true", b"[]", b"{a=1}",
                  b'"' + b"9" * 5000 + b'"',
                  b"1979-05-27", b'"0:99999999999999999999999999"', b'"\\uD800"', b'"\xff"', b"[[1]]",
                  b"0x7fffffffffffffffff",
                  b'"' + b"0," * 50_000 + b'0"', b"[" * 5000, b'"-"', b'""', b'"9999999999999 TB"']  # fmt: skip
        lines[k] = (
            key + b"= " + r.choice(values) + b"\n"
            if b"=" in lines[k]
            else r.choice([lines[k] * 2, b"[[probe]]\n", b"[probe]\n"])
        )
        data = bytearray(b"".join(lines))
    file.write_bytes(damage.change(bytes(data), r) if r.random() < 0.5 else bytes(data))
    if r.random() < 0.2:
        return command("compare", "--values", seeds.sample, seeds.sample, "--probes", file)

    def act() -> str:
        try:
            known = read_configuration(file)
            known.plan_text().encode()
            find_most_detailed_level(known)
            known.find_unknown_entries({"probe": {"a"}, "loop": {"x"}, "file": {"/src/a.c"}})
        except UsageError:
            return "refused"
        return "read"

    return act


def of_directives(seeds: Seeds, folder: Path, r: random.Random) -> Act:
    """Programs with directives of DVM, in C and Fortran. They are marked, and never compiled or run."""
    front, ending = r.choice([(C_DVMH, "cdv"), (FORTRAN_DVM, "fdv")])
    programs = sorted(CHECK.rglob(f"*.{ending}"))
    file = folder / f"program.{ending}"
    file.write_bytes(damage.change(r.choice(programs).read_bytes(), r, r.choice(programs).read_bytes()))

    def act() -> str:
        try:
            front.claims([file])
            front.mark([file])  # type: ignore[attr-defined]
        except UsageError:
            return "refused"
        return "read"

    return act


def of_host_packs(seeds: Seeds, folder: Path, r: random.Random) -> Act:
    """What a host has packed into one file, and what a task wrote down of where hosts meet."""
    if r.random() < 0.3:
        (folder / "hosts").write_bytes(damage.change_json(PLACE, r))

        def act() -> str:
            try:
                place = ListenerAddress.read_from(folder, folder)
            except WeftError:
                return "refused"
            assert (folder / place.name).parent == folder and 0 < place.port < 1 << 16 and bytes.fromhex(place.secret)
            assert all(isinstance(one, str) for one in place.addresses)
            return "read"

        return act
    file = folder / "one.weftpack"
    pack.write_pack(seeds.sample, "one", file)
    file.write_bytes(damage.change(file.read_bytes(), r))
    return command("gather", folder / "run", file)


def of_schedules(seeds: Seeds, folder: Path, r: random.Random) -> Act:
    """The file of `weft tasks --replay`, as the command and then the program itself read it."""
    runtime = r.choice(["asyncio", "openmp"])
    head = json.dumps({"schema": SCHEMA} if runtime == "asyncio" else {"schema": SCHEMA, "runtime": runtime}).encode()
    lines = [b"%d main.%d.%d" % (r.randrange(3), k % 4, k) for k in range(40)] + [b"1 !0.reader.2"]
    file = folder / "order"
    file.write_bytes(damage.change(b"\n".join([head, *lines, b""]), r))

    def act() -> str:
        try:
            schedule.check_schedule_file("replay", str(file), "asyncio")
            return "read" if read_schedule(str(file)) else "empty"
        except (UsageError, ValueError):
            return "refused"

    return act
