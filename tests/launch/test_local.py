"""Runs over hosts without a common directory: hosts with private disks, made of namespaces on this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from launch.hosts import Hosts
from tests_support import WEFT, Installed, execute
from weft.errors import OtherVersion, WeftError
from weft.launch import remote_hosts
from weft.launch.launcher_line import parse_launcher_line
from weft.launch.local import gather_after_run, pack, plan_hosts
from weft.launch.local.host_protocol import ProtocolError, SealedChannel, Side, encode_facts
from weft.launch.local.hosts import Hosts as Listening
from weft.launch.rundir import RunDirectory
from weft.mpi import shim

Line = Callable[..., list[str | Path]]
PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def line(mpich: Installed, program: Callable[[str], Path], hosts: Hosts) -> Line:
    """A line of mpiexec over some hosts, two ranks each."""

    def of(names: str, name: str, *arguments: str) -> list[str | Path]:
        count = str(2 * len(names.split(",")))
        start = [*mpich.mpiexec, "-launcher-exec", hosts.agent, "-hosts", names, "-n", count, "-ppn", "2"]
        return ["env", f"WEFT_CACHE={cache()}", *WEFT, "run", "--local", hosts.home / "disk", "--", *start,
                program(name), *arguments]  # fmt: skip

    return of


def cache() -> str:
    """Where this machine has its recorders: the hosts have other homes."""
    return os.environ.get("WEFT_CACHE") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")


def facts(hosts: Hosts, host: str = "a") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(hosts.read(host, "cat weft-runs/*/run.json"))
    return found


def nothing_of_weft_stays(hosts: Hosts, names: Sequence[str]) -> None:
    """No process of Weft and no record is left on hosts on which others run."""
    limit = time.monotonic() + 10
    while any("weft" in one for name in names for one in hosts.processes(name)) and time.monotonic() < limit:
        time.sleep(0.2)
    assert [one for name in names for one in hosts.processes(name) if "launch/local" in one or "weft run" in one] == []
    assert [hosts.read(name, "ls disk") for name in names] == ["" for _ in names]


def nothing_stays(hosts: Hosts, names: str) -> None:
    """No process and no file is left on the hosts."""
    limit = time.monotonic() + 10
    while any(hosts.processes(name) for name in names) and time.monotonic() < limit:
        time.sleep(0.2)
    assert [hosts.processes(name) for name in names] == [[] for _ in names]
    assert [hosts.read(name, "ls disk") for name in names] == ["" for _ in names]


@pytest.mark.cases(1)
@pytest.mark.parametrize("names", ["a,b", "b,c", "a,b,c"])
def test_all_ranks_of_all_hosts_are_gathered(hosts: Hosts, line: Line, names: str) -> None:
    done = hosts.run("a", line(names, "step", "good"))
    count = 2 * len(names.split(","))
    assert done.returncode == 0, done.stderr
    assert f"weft: recorded {count} ranks" in done.stderr
    assert "nothing found" in done.stderr
    told = facts(hosts)
    assert (told["ranks"], told["ended"]) == (count, "finished")
    assert sorted(one["host"] for one in told["hosts"]) == names.split(",")
    nothing_stays(hosts, "abc")


@pytest.mark.matrix
def test_a_deadlock_over_hosts_is_proven_within_ten_seconds(hosts: Hosts, line: Line) -> None:
    began: list[float] = []

    def look() -> None:
        while not any(
            "step deadlock" in words and plan_hosts.ENTRY.name not in words for words in hosts.processes("c")
        ):
            time.sleep(0.1)
        began.append(time.monotonic())
        while any("step deadlock" in words for words in hosts.processes("c")):
            time.sleep(0.1)
        began.append(time.monotonic())

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    done = hosts.run("a", line("a,b,c", "step", "deadlock"))
    watcher.join(20)
    assert done.returncode == 3, done.stderr
    assert "rank 0 waits in recv(source=1, tag=5) at step.c:" in done.stderr
    assert "weft: recorded 6 ranks" in done.stderr
    assert began[1] - began[0] < 10
    nothing_stays(hosts, "abc")


def kill_in_the_middle(hosts: Hosts, host: str) -> None:
    """Let a host lose its power while both of its ranks run."""

    def end() -> None:
        named: list[str] = []
        while len(named) < 2:  # both have come through MPI_Init, which all ranks leave together
            time.sleep(0.1)
            named = [name for name in hosts.read(host, "ls disk/*/ranks").split() if re.match(r"[0-9a-f]+-\d+\.", name)]
        time.sleep(2)
        hosts.kill(host)

    threading.Thread(target=end, daemon=True).start()


def lost_host_is_told(said: list[str]) -> None:
    """What somebody reads who has to do something about it: at once, and at the end."""
    assert re.match(r"weft: host b does not answer any more \(.+\), with ranks? [23]", said[0]), said
    assert (
        "weft: Weft ended the run: host b did not answer any more, and the ranks on the other hosts made no progress "
        "in MPI" in said
    )
    [remedy] = [text for text in said if "recorded may still be there" in text]
    assert re.search(r"`scp -r b:(\S+/disk/\S+) b` and `weft gather \S+ b` put it into the run", remedy), remedy


@pytest.mark.matrix
def test_a_host_that_dies_loses_only_its_own_ranks(hosts: Hosts, line: Line) -> None:
    kill_in_the_middle(hosts, "b")
    done = hosts.run("a", line("a,b,c", "ring", "20"), timeout=120)
    assert done.returncode not in (0, 3), done.stderr
    said = [text for text in done.stderr.splitlines() if text.startswith("weft: ")]
    assert said[1].startswith("weft: of 6 ranks ranks 2 and 3 left no record (host b: "), done.stderr
    lost_host_is_told(said)
    told = facts(hosts)
    assert told["ranks"] == 4
    (lost,) = told["lost"]
    assert lost["host"] == "b"
    assert lost["ranks"]
    assert {*lost["ranks"]} <= {2, 3}  # of those that it had told: on a busy machine perhaps not of both
    assert "weft: recorded 4 ranks" in done.stderr
    report = hosts.run("a", [*WEFT, "report"])
    assert report.stdout.startswith("Ranks 2 and 3 of 6 left no record. ")
    assert report.returncode == 1


@pytest.fixture
def of_openmpi(openmpi: Installed, hosts: Hosts, tmp_path: Path) -> Line:
    """A line of Open MPI's mpirun over some hosts with an agent of its own, two ranks each."""
    shim.build_shim(openmpi.mpicc)

    def of(names: str, name: str, *arguments: str) -> list[str | Path]:
        program = tmp_path / name
        built = execute([openmpi.mpicc, "-g", "-o", program, PROGRAMS / f"{name}.c"])
        assert built.returncode == 0, built.stderr
        places = ",".join(f"{one}:2" for one in names.split(","))
        setting = {**openmpi.environment, "PRTE_MCA_plm_ssh_agent": str(hosts.agent), "WEFT_CACHE": cache()}
        return ["env", *(f"{key}={value}" for key, value in setting.items()), *WEFT, "run", "--local",
                hosts.home / "disk", "--", openmpi.mpiexec[0], "-H", places, "-n", str(2 * len(names.split(","))),
                "--mca", "btl", "self,tcp", program, *arguments]  # fmt: skip

    return of


@pytest.mark.matrix
@pytest.mark.parametrize(("mode", "status", "kinds"), [("good", 0, []), ("deadlock", 3, ["deadlock"])])
def test_open_mpi_over_hosts(hosts: Hosts, of_openmpi: Line, mode: str, status: int, kinds: list[str]) -> None:
    done = hosts.run("a", of_openmpi("a,b,c", "step", mode), timeout=120)
    assert done.returncode == status, done.stderr
    assert "weft: recorded 6 ranks" in done.stderr
    report = hosts.run("a", [*WEFT, "report", "--format", "json"])
    assert [one["kind"] for one in json.loads(report.stdout)["findings"]] == kinds
    nothing_stays(hosts, "abc")


@pytest.mark.matrix
def test_open_mpi_over_hosts_of_which_one_dies(hosts: Hosts, of_openmpi: Line) -> None:
    kill_in_the_middle(hosts, "b")
    done = hosts.run("a", of_openmpi("a,b,c", "ring", "20"), timeout=150)
    said = [text for text in done.stderr.splitlines() if "weft: " in text]
    assert any("of 6 ranks ranks 2 and 3 left no record (host b: " in text for text in said[:2]), done.stderr
    assert done.returncode not in (0, 3), done.stderr
    told = facts(hosts)
    assert (told["ranks"], [(one["host"], one["ranks"]) for one in told["lost"]]) == (4, [("b", [2, 3])])
    report = hosts.run("a", [*WEFT, "report"])
    assert report.stdout.startswith("Ranks 2 and 3 of 6 left no record. ")
    assert "[invalid-argument]" not in report.stdout
    ended = [text for text in report.stdout.splitlines() if "by MPI inside sendrecv" in text and "[abort]" in text]
    assert all(
        "; host b was lost, which may be why MPI ended" in text and "(possible, not proven)" in text for text in ended
    )


def test_without_local_ranks_of_other_hosts_are_missed(hosts: Hosts, line: Line) -> None:
    words = [word for word in line("a,b", "step", "good") if word not in ("--local", hosts.home / "disk")]
    done = hosts.run("a", words)
    said = [text for text in done.stderr.splitlines() if text.startswith("weft: ")]
    assert said[0] == "weft: of 4 ranks ranks 2 and 3 left no record"
    assert done.returncode == 4


@pytest.mark.matrix
@pytest.mark.parametrize(("mode", "status"), [("good", 0), ("deadlock", 3)])
def test_a_run_of_three_hosts_is_replayed_on_one(hosts: Hosts, line: Line, mode: str, status: int) -> None:
    hosts.run("a", line("a,b,c", "step", mode))
    done = hosts.run("a", [*WEFT, "replay"])
    assert done.returncode == status, done.stderr
    assert "note: the run was recorded with --local on a, b, c. The replay runs all ranks on this host" in done.stderr
    assert ("recv(source=1, tag=5) at step.c:" if status else "replayed 6 ranks, 12 calls") in done.stderr
    stop = hosts.run("a", [*WEFT, "replay", "--until", "4:MPI_Allreduce"])
    assert stop.returncode == 0, stop.stderr
    assert "weft: stopped as asked: 0 of " in stop.stderr
    assert "before event 2: allreduce at step.c:" in stop.stderr
    nothing_stays(hosts, "abc")


@pytest.mark.matrix
def test_a_replay_whose_hosts_do_not_see_it_says_so(hosts: Hosts, line: Line) -> None:
    words = line("a,b", "step", "good")
    hosts.run("a", words)
    done = hosts.run("a", [*WEFT, "replay", "weft-runs/step-1", *words[words.index("--") :]])
    assert done.returncode == 5, done.stderr
    assert "weft: ranks 2, 3 ran without the replay: their hosts do not see" in done.stderr
    assert "weft replay weft-runs/step-1 -n 4 -- PROGRAM ARGS" in done.stderr


@pytest.mark.matrix
def test_the_run_of_a_launching_host_without_ranks_is_kept(hosts: Hosts, line: Line) -> None:
    words = [word for word in line("b,c", "step", "good") if word not in ("--local", hosts.home / "disk")]
    hosts.run("b", ["mkdir", "-p", "weft-runs/step-1/ranks"])
    done = hosts.run("a", words)
    assert done.returncode == 4, done.stderr
    assert "weft: nothing was recorded here: the ranks may have run on other hosts" in done.stderr
    assert "weft gather weft-runs/step-1 HOSTDIR..." in done.stderr
    assert facts(hosts)["ended"] == "finished"
    copied = hosts.folder / "copied"
    hosts.run("b", ["cp", "-r", "weft-runs/step-1/ranks", copied])
    gathered = hosts.run("a", [*WEFT, "gather", "weft-runs/step-1", copied])
    assert "of 4 ranks ranks 2 and 3 left no record" in gathered.stderr, gathered.stderr
    report = hosts.run("a", [*WEFT, "report"])
    assert report.stdout.startswith("Ranks 2 and 3 of 4 left no record. ")
    assert "step.c:" in hosts.run("a", [*WEFT, "dump"]).stdout


@pytest.mark.parametrize(
    ("command", "environment", "expected"),
    [
        ("mpiexec -n 2 prog", {}, False),
        ("mpiexec -n 2 prog -hosts a,b", {}, False),
        ("mpiexec -hosts a,b -n 2 prog", {}, True),
        ("mpiexec -n 1 prog : -host b -n 1 prog", {}, True),
        ("mpiexec -n 2 prog", {"SLURM_JOB_NUM_NODES": "2"}, True),
        ("mpiexec -n 2 prog", {"SLURM_JOB_NUM_NODES": "1"}, False),
        ("./prog", {"SLURM_JOB_NUM_NODES": "2"}, False),
    ],
)
def test_a_line_says_whether_its_ranks_may_be_elsewhere(
    mpich: Installed, command: str, environment: dict[str, str], *, expected: bool
) -> None:
    words = command.replace("mpiexec", mpich.mpiexec[0]).split()
    assert remote_hosts.may_use_other_hosts(parse_launcher_line(words), environment) is expected


def recorded(hosts: Hosts, line: Line, folder: Path) -> Path:
    """A run of two hosts, copied out of them."""
    hosts.run("a", line("a,b", "step", "good"))
    (folder / "all").mkdir()
    with (folder / "all.tar").open("wb") as file:
        subprocess.run([*hosts.enter("a"), "tar", "-c", "-C", "weft-runs/step-1", "."], stdout=file, check=True)
    subprocess.run(["tar", "-x", "-C", folder / "all", "-f", folder / "all.tar"], check=True)
    return folder / "all"


@pytest.mark.matrix
def test_folders_that_were_copied_by_hand_become_a_run(
    hosts: Hosts, line: Line, tmp_path: Path, weft_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    whole = recorded(hosts, line, tmp_path)
    for k, ranks in enumerate([(0, 1), (2, 3)]):
        folder = tmp_path / f"host{k}"
        (folder / "ranks").mkdir(parents=True)
        (folder / "functions.json").write_bytes((whole / "functions.json").read_bytes())
        for rank in ranks:
            [path] = (whole / "ranks").glob(f"*-{rank:06d}.weft")
            path.rename(folder / "ranks" / path.name)
    done = weft_command("gather", "run", "host0")
    assert done.returncode == 1
    assert done.stderr.startswith("weft: of 4 ranks ranks 2 and 3 left no record")
    done = weft_command("gather", "run", "host1")
    assert (done.returncode, "4 ranks in run" in done.stderr) == (0, True), done.stderr
    told = json.loads((tmp_path / "run/run.json").read_text())
    assert (told["ended"], told["ranks"]) == ("finished", 4)
    dump = weft_command("dump", "run")
    assert "step.c:" in dump.stdout
    report = weft_command("report", "run")
    assert report.returncode == 0, report.stdout


def test_what_was_not_reached_is_gathered_in_a_job_step(hosts: Hosts, line: Line) -> None:
    run = hosts.folder / "run"  # in a folder that all hosts see
    words = line("a,b", "step", "good")
    words[words.index("--local") : words.index("--local")] = ["--out", run]
    done = hosts.run("a", ["env", "WEFT_ADDRESS=127.0.0.1", *words])  # no way back from host b
    assert done.returncode == 4, done.stderr
    assert "weft: of 4 ranks ranks 2 and 3 left no record" in done.stderr
    for host, ranks in (("a", 2), ("b", 4)):
        done = hosts.run(host, [*WEFT, "gather", run])
        assert f"{ranks} ranks in" in done.stderr, done.stderr
    assert done.returncode == 0
    assert [*run.glob("packs/*"), *run.glob(".incoming")] == []
    nothing_stays(hosts, "ab")
    report = hosts.run("c", [*WEFT, "report", run])
    assert report.returncode == 0, report.stdout
    assert "step.c:" in hosts.run("c", [*WEFT, "dump", run]).stdout


def test_ctrl_c_while_a_rank_s_start_still_imports_ends_it_without_a_word(tmp_path: Path) -> None:
    (tmp_path / "subprocess.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    done = execute([sys.executable, "-P", plan_hosts.ENTRY, "x", "--", "true"], env={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_a_host_that_comes_while_all_is_gathered_is_gathered_too(tmp_path: Path) -> None:
    (tmp_path / "run" / "ranks").mkdir(parents=True)
    run, secret = RunDirectory(tmp_path / "run", {}), b"s" * 32
    listening = Listening(run, secret)
    threading.Timer(0.05, late_host, [listening.port, secret, host_folder(tmp_path / "host")]).start()
    listening.gather_records(kill=False)
    listening.close()
    assert [one["host"] for one in run.facts["hosts"]] == ["late"]
    assert "lost" not in run.facts


def late_host(port: int, secret: bytes, folder: Path) -> None:
    """A watcher that has just found its way."""
    channel, asked = SealedChannel(secret, Side.HOST), ""
    with socket.create_connection(("127.0.0.1", port), 10) as one:
        one.sendall(channel.greeting)
        while "finish" not in asked:
            for _, body in channel.receive_frames(one.recv(1 << 16)):
                asked += body.decode()
            if channel.is_greeted and not asked:
                one.sendall(channel.make_frame(b"H", encode_facts({"host": "late", "folder": str(folder)})))
                asked = " "
        one.sendall(channel.make_frame(b"P", encode_facts({"of": "end"})))
        pack.send_pack(folder, "late", lambda kind, body: one.sendall(channel.make_frame(kind, body)))
        one.recv(1 << 16)


# What another host sent is not believed


def two() -> tuple[SealedChannel, SealedChannel]:
    run, host = SealedChannel(b"s" * 32, Side.RUN), SealedChannel(b"s" * 32, Side.HOST)
    assert not list(run.receive_frames(host.greeting))
    assert not list(host.receive_frames(run.greeting))
    return run, host


def test_a_frame_arrives_as_it_was_sent() -> None:
    run, host = two()
    assert list(run.receive_frames(host.make_frame(b"H", b"one") + host.make_frame(b"S", b"two"))) == [
        (b"H", b"one"),
        (b"S", b"two"),
    ]


@pytest.mark.parametrize("how", ["changed", "repeated", "turned round", "too long", "another secret"])
def test_a_frame_that_does_not_fit_is_refused(how: str) -> None:
    run, host = two()
    if how == "another secret":
        host = SealedChannel(b"t" * 32, Side.HOST)
        list(host.receive_frames(SealedChannel(b"t" * 32, Side.RUN).greeting))
    frame = host.make_frame(b"S", b"some facts")
    sent = {
        "changed": frame[:-1] + b"!", "repeated": frame + frame, "turned round": run.make_frame(b"S", b"x"),
        "too long": b"\xff\xff\xff\x7f", "another secret": frame,
    }[how]  # fmt: skip
    with pytest.raises(ProtocolError):
        list(run.receive_frames(sent))


def host_folder(path: Path) -> Path:
    (path / "ranks").mkdir(parents=True)
    (path / "ranks" / "0123abcd-000001.weft").write_bytes(os.urandom(600_000))
    (path / "ranks" / "notes.sh").write_text("left out")
    (path / "ranks" / "0123abcd-000002.weft").symlink_to("/etc/passwd")
    return path


def test_a_pack_holds_the_records_and_nothing_else(tmp_path: Path) -> None:
    folder = host_folder(tmp_path / "host")
    pack.write_pack(folder, "h", tmp_path / "h.weftpack")
    taken = pack.unpack_file(tmp_path / "h.weftpack", tmp_path / "out")
    name = "ranks/0123abcd-000001.weft"
    assert list(taken.names) == [name]
    assert (tmp_path / "out" / name).read_bytes() == (folder / name).read_bytes()


def test_a_damaged_pack_is_refused_wherever_the_damage_is(tmp_path: Path) -> None:
    pack.write_pack(host_folder(tmp_path / "host"), "h", tmp_path / "h.weftpack")
    data = (tmp_path / "h.weftpack").read_bytes()
    for at in range(3, len(data), 50_021):
        (tmp_path / "bad").write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(WeftError):
            pack.unpack_file(tmp_path / "bad", tmp_path / "out")
        (tmp_path / "bad").write_bytes(data[:at])
        with pytest.raises(WeftError):
            pack.unpack_file(tmp_path / "bad", tmp_path / "out")


def test_a_pack_of_another_version_is_refused_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "h.weftpack"
    pack.write_pack(host_folder(tmp_path / "host"), "h", file)
    file.write_bytes(file.read_bytes().replace(b"weft-pack/1\n", b"weft-pack/2\n", 1))
    with pytest.raises(OtherVersion) as told:
        pack.unpack_file(file, tmp_path / "out")
    assert str(told.value) == (
        f"{file} is of version 2, and this Weft reads version 1: record the run again, or read it with the Weft that "
        "wrote it"
    )


def test_a_run_is_not_made_of_a_host_whose_facts_are_of_another_version(tmp_path: Path) -> None:
    folder = host_folder(tmp_path / "host")
    (folder / "functions.json").write_text('{"schema": "weft-functions/1", "functions": []}')
    for version in (2, 1):
        (folder / "run.json").write_text(json.dumps({"schema": f"weft-run/{version}"}))
        with pytest.raises(OtherVersion, match=r"run\.json is of version 2") if version == 2 else nullcontext():
            gather_after_run.create_run(tmp_path / "run", [folder])
        assert (tmp_path / "run").exists() is (version == 1)


@pytest.mark.parametrize(
    "name", ["../escaped.weft", "/etc/passwd", "ranks/../../x.weft", "run.json", "ranks/a.sh", "ranks/0-1.weft\n"]
)
def test_a_pack_writes_no_file_outside_of_its_folder(name: str, tmp_path: Path) -> None:
    taking = pack.PackReceiver(tmp_path / "out")
    taking.receive_part(b"B", encode_facts({"host": "h", "files": 1}))
    with pytest.raises(ProtocolError):
        taking.receive_part(b"F", encode_facts({"name": name, "size": 1}))


def test_a_pack_is_not_larger_than_the_disk(tmp_path: Path) -> None:
    taking = pack.PackReceiver(tmp_path / "out")
    taking.receive_part(b"B", encode_facts({"host": "h", "files": 1}))
    with pytest.raises(OSError, match="full"):
        taking.receive_part(b"F", encode_facts({"name": "ranks/0-1.weft", "size": 2**60}))
