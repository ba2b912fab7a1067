"""Every function of PVM, with the place that each of its arguments has in the record.

PVM 3.4.6 has no machine-readable form of its interface: the prototypes of pvm3.h stand here, each parameter with its
place. What the recorder's wrappers do, the run's functions.json and the page of coverage are made of
`make_functions()`.
A function that passes messages has ids of its own for what may come of it (`FORMS`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from weft.mpi.table import Function, Parameter

# `name=PLACE` after a parameter: peer, tag, count, buffer, object (a buffer of PVM): fields of the slot; text, int,
# tids (in the tail, known when the call begins), out, outs:N (N numbers that it gives back); nothing: none kept.
# `-> int`: the result is kept. `-> new`: the result is a new buffer. `by hand`: native/calls.c has the wrapper.
# `group`: passes messages through others of these functions.
_PROTOTYPES: Final = """
int pvm_addhosts(char **names, int count=count, int *infos=outs:count) -> int
int pvm_addmhf(int src=int, int tag=tag, int ctx=int, int (*f)(int)) -> int
int pvm_archcode(char *arch=text) -> int
int pvm_barrier(char *group=text, int count=count) group
int pvm_bcast(char *group=text, int msgtag=tag) group
int pvm_bufinfo(int bufid=object, int *bytes=out, int *msgtag=out, int *tid=out)
int pvm_catchout(FILE *file)
int pvm_config(int *nhost=out, int *narch=out, struct pvmhostinfo **hosts)
int pvm_delete(char *name=text, int index=int)
int pvm_delhosts(char **names, int count=count, int *infos=outs:count) -> int
int pvm_delinfo(char *name=text, int index=int, int flags=int)
int pvm_delmhf(int mhid=int)
int pvm_exit(void) by hand
int pvm_export(char *name=text)
int pvm_freebuf(int bufid=object) by hand
int pvm_freecontext(int ctx=int)
int pvm_freezegroup(char *group=text, int size=count) group
int pvm_gather(void *result, void *data=buffer, int count=count, int datatype=type, int msgtag=tag, char \
*group=text, int rootinst=int) group
int pvm_getcontext(void) -> int
int pvm_getfds(int **fds) -> int
int pvm_getinst(char *group=text, int tid=peer) group -> int
int pvm_getmboxinfo(char *pattern=text, int *nclasses=out, struct pvmmboxinfo **classes)
int pvm_getminfo(int bufid=object, struct pvmminfo *info)
int pvm_getnoresets(int **tids, int *ntids=out)
int pvm_getopt(int what=int) -> int
int pvm_getrbuf(void) -> int
int pvm_getsbuf(void) -> int
int pvm_gettid(char *group=text, int inum=int) group -> tid
int pvm_gettmask(int who=int, void *mask)
int pvm_gsize(char *group=text) group -> int
int pvm_halt(void)
int pvm_hostsync(int host=int, struct timeval *clk, struct timeval *delta)
int pvm_initsend(int encoding=count) by hand -> new
int pvm_insert(char *name=text, int index=int, int data=int) -> int
int pvm_joingroup(char *group=text) group -> int
int pvm_kill(int tid=peer) by hand
int pvm_lookup(char *name=text, int index=int, int *data=out)
int pvm_lvgroup(char *group=text) group
int pvm_mcast(int *tids, int ntask, int msgtag=tag) by hand sends
int pvm_mkbuf(int encoding=count) by hand -> new
int pvm_mstat(char *host=text) -> int
int pvm_mytid(void) -> tid
int pvm_newcontext(void) -> int
int pvm_notify(int what=int, int msgtag=tag, int count=count, int *tids=tids:count) -> int
int pvm_nrecv(int tid=peer, int msgtag=tag) by hand polls -> new
int pvm_packf(const char *format=text, ...) by hand
int pvm_parent(void) -> tid
int pvm_perror(char *message=text)
int pvm_pkbyte(char *data=buffer, int count=count, int stride=int) packs
int pvm_pkcplx(float *data=buffer, int count=count, int stride=int) packs
int pvm_pkdcplx(double *data=buffer, int count=count, int stride=int) packs
int pvm_pkdouble(double *data=buffer, int count=count, int stride=int) packs
int pvm_pkfloat(float *data=buffer, int count=count, int stride=int) packs
int pvm_pkint(int *data=buffer, int count=count, int stride=int) packs
int pvm_pklong(long *data=buffer, int count=count, int stride=int) packs
int pvm_pkmesg(int bufid=object) by hand
int pvm_pkmesgbody(int bufid=object) by hand
int pvm_pkshort(short *data=buffer, int count=count, int stride=int) packs
int pvm_pkstr(char *data=buffer) packs
int pvm_pkuint(unsigned int *data=buffer, int count=count, int stride=int) packs
int pvm_pkulong(unsigned long *data=buffer, int count=count, int stride=int) packs
int pvm_pkushort(unsigned short *data=buffer, int count=count, int stride=int) packs
int pvm_precv(int tid=peer, int msgtag=tag, void *buf=buffer, int len=count, int datatype=type, int *rtid, int \
*rtag, int *rlen) by hand takes
int pvm_probe(int tid=peer, int msgtag=tag) by hand polls
int pvm_psend(int tid=peer, int msgtag=tag, void *buf=buffer, int len=count, int datatype=type) by hand sends
int pvm_pstat(int tid=peer) -> int
int pvm_putinfo(char *name=text, int bufid=object, int flags=int) -> int
int pvm_recv(int tid=peer, int msgtag=tag) by hand takes -> new
int pvm_recvinfo(char *name=text, int index=int, int flags=int) -> new
int pvm_reduce(void (*func)(int *, void *, void *, int *, int *), void *data=buffer, int count=count, int \
datatype=type, int msgtag=tag, char *group=text, int rootinst=int) group
int pvm_reg_hoster(void)
int pvm_reg_rm(struct pvmhostinfo **hosts)
int pvm_reg_tasker(void)
int pvm_reg_tracer(int tctx, int ttag, int octx, int otag, char *tmask, int tbuf, int topt)
int pvm_scatter(void *result=buffer, void *data, int count=count, int datatype=type, int msgtag=tag, char \
*group=text, int rootinst=int) group
int pvm_send(int tid=peer, int msgtag=tag) by hand sends
int pvm_sendsig(int tid=peer, int signum=int)
int pvm_setcontext(int ctx=int) -> int
int pvm_setminfo(int bufid=object, struct pvmminfo *info)
int pvm_setopt(int what=int, int value=int) -> int
int pvm_setrbuf(int bufid=object) by hand
int pvm_setsbuf(int bufid=object) by hand
int pvm_settmask(int who=int, void *mask)
int pvm_siblings(int **tids) -> int
int pvm_spawn(char *task=text, char **argv, int flag=int, char *where=text, int ntask=count, int \
*tids=outs:ntask) by hand -> int
int pvm_tasks(int where=int, int *ntask=out, struct pvmtaskinfo **tasks)
int pvm_tickle(int narg=count, int *argp, int *nresp, int *resp)
int pvm_tidtohost(int tid=peer) -> int
int pvm_trecv(int tid=peer, int msgtag=tag, struct timeval *tmout) by hand polls -> new
int pvm_unexport(char *name=text)
int pvm_unpackf(const char *format=text, ...) by hand
int pvm_upkbyte(char *data=buffer, int count=count, int stride=int) unpacks
int pvm_upkcplx(float *data=buffer, int count=count, int stride=int) unpacks
int pvm_upkdcplx(double *data=buffer, int count=count, int stride=int) unpacks
int pvm_upkdouble(double *data=buffer, int count=count, int stride=int) unpacks
int pvm_upkfloat(float *data=buffer, int count=count, int stride=int) unpacks
int pvm_upkint(int *data=buffer, int count=count, int stride=int) unpacks
int pvm_upklong(long *data=buffer, int count=count, int stride=int) unpacks
int pvm_upkmesg(void) -> new
int pvm_upkshort(short *data=buffer, int count=count, int stride=int) unpacks
int pvm_upkstr(char *data=buffer) unpacks
int pvm_upkuint(unsigned int *data=buffer, int count=count, int stride=int) unpacks
int pvm_upkulong(unsigned long *data=buffer, int count=count, int stride=int) unpacks
int pvm_upkushort(unsigned short *data=buffer, int count=count, int stride=int) unpacks
"""

UNRECORDED: Final = {
    "pvm_recvf": "it gives PVM another rule of which message a receive takes, in a function of the program",
    "pvm_start_pvmd": "it starts a daemon, before which there is nothing to record in",
    "pvm_version": "it asks for a text",
    "pvm_strerror": "it asks for a text",
}
"""Functions that go past the recorder, and why."""

CODES: Final = "STR BYTE SHORT INT FLOAT CPLX DOUBLE DCPLX LONG USHORT UINT ULONG".split()
"""PVM_STR, PVM_BYTE, ... by their numbers."""
DATATYPES: Final = {
    **{code + 1: f"PVM_{name}" for code, name in enumerate(CODES) if code},
    len(CODES) + 1: "PVM_STR",
    len(CODES) + 2: "packed",
}
"""Names of the datatypes by their ids in a record: PVM_BYTE is 2. A message in a buffer is of what was packed there."""
PACKED: Final = len(CODES) + 2
SIZES: Final = {**dict(zip(CODES, (1, 1, 2, 4, 4, 8, 8, 16, 8, 2, 4, 8), strict=True)), "packed": 1}
"""Bytes of an element, as on a machine with 8 bytes in a long."""

FORMS: Final = {
    "takes": ("", "", ".notice"),
    "polls": ("", ".nothing", ".notice"),
    "group": ("", ".send", ".recv", ".nothing", ".notice"),
}
"""What the ids of a function after its first one stand for; an empty name is not used.

A poll that found nothing is an event of its own kind; so is what took a notice of the daemon in place of a message.
What a function of groups sends and receives stands behind it, under its name.
"""

_LINE: Final = re.compile(
    r"int (pvm_\w+)\((.*)\)((?: by hand| group| sends| takes| polls| packs| unpacks)*)(?: -> (\w+))?"
)


@dataclass(frozen=True)
class PvmCall:
    """One function of PVM: its C parameters with their names, and what the recorder makes of it."""

    name: str
    given: tuple[tuple[str, str, str], ...]
    """C declaration, name and place of each parameter."""
    words: frozenset[str]
    result: str
    """What is kept of the result: int, tid, new or nothing."""

    @property
    def by_hand(self) -> bool:
        """Return whether its wrapper is not generated."""
        return "by hand" in self.words

    @property
    def forms(self) -> tuple[str, ...]:
        """Return its ids from the first one on, by what follows its name."""
        return next((FORMS[word] for word in FORMS if word in self.words), ("",))

    @property
    def datatype(self) -> int:
        """Return the id of the datatype that the call packs or unpacks, 0 for a call that does neither."""
        if not self.words & {"packs", "unpacks"}:
            return 0
        code = CODES.index(self.name.removeprefix("pvm_").removeprefix("upk").removeprefix("pk").upper())
        return datatype_id(code)


def datatype_id(code: int) -> int:
    """Return the id in a record for a datatype code of PVM."""
    return code + 1 if code else len(CODES) + 1


def _parse_parameters(text: str) -> list[tuple[str, str, str]]:
    """Split the parameters of a prototype into (declaration in C, name, place in the record). The place stands after
    `=`, as in `int tid=peer`; it is empty for a parameter that is not recorded."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    found = []
    for part in (one.strip() for one in parts):
        if part in ("void", ""):
            continue
        declaration, _, place = part.rpartition("=") if re.search(r"=[\w:]+$", part) else (part, "", "")
        name = re.search(r"\(\*(\w+)\)|(\w+)$", declaration)
        found.append((declaration, (name[1] or name[2]) if name else "...", place))
    return found


@cache
def parse_calls() -> tuple[PvmCall, ...]:
    """Return all recorded functions of PVM, in the order of their names."""
    found = []
    for line in _PROTOTYPES.strip().splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"not a prototype of PVM: {line!r}")
        words = frozenset(re.findall(r"by hand|\w+", match[3]))
        found.append(PvmCall(match[1], tuple(_parse_parameters(match[2])), words, match[4] or ""))
    return tuple(found)


_TYPES: Final = {"text": "string", "object": "handle:MESSAGE", "type": "handle:DATATYPE", "buffer": "address"}
_KINDS: Final = {
    "peer": "RANK", "tag": "TAG", "count": "XFER_NUM_ELEM", "buffer": "BUFFER", "object": "MESSAGE", "type": "DATATYPE",
    "text": "STRING",
}  # fmt: skip
_SLOT: Final = {
    "peer": "peer",
    "tag": "tag",
    "count": "count",
    "buffer": "buffer",
    "object": "object",
    "type": "datatype",
}


def _make_parameter(name: str, place: str) -> Parameter | None:
    """Return the entry for a parameter in functions.json, None if the parameter is not recorded. `place`: where the
    record has it."""
    word, _, length = place.partition(":")
    if not word:
        return None
    out = word in ("out", "outs")
    slot = _SLOT.get(word, "tail")
    return Parameter(
        name, "", _KINDS.get(word, "INTEGER"), "out" if out else "in", length or None, False, _TYPES.get(word, "int"),
        slot,
    )  # fmt: skip


def _make_function(number: int, call: PvmCall) -> Function:
    """Return the entry of a function in functions.json."""
    kept = [p for _, name, place in call.given if (p := _make_parameter(name, place)) is not None]
    if call.words & {"packs", "unpacks"}:
        kept.append(replace(_input_parameter("datatype", "DATATYPE", "datatype"), type="handle:DATATYPE"))
        kept.append(replace(_input_parameter("bufid", "MESSAGE", "object"), type="handle:MESSAGE"))
    if call.words & {"sends", "takes", "polls"}:
        kept += _message_parameters(call, {p.place for p in kept})
    if call.result in ("int", "tid"):
        kept.append(Parameter("result", "", "INTEGER", "out", None, False, "int", "tail"))
    if call.result == "new" and all(p.place != "object" for p in kept):
        kept.append(replace(_input_parameter("result", "MESSAGE", "object"), type="handle:MESSAGE", direction="out"))
    return Function(number, call.name, "int", tuple(kept), None)


def _input_parameter(name: str, kind: str, place: str) -> Parameter:
    """Return the entry of an integer input parameter."""
    return Parameter(name, "", kind, "in", None, False, "int", place)


def _message_parameters(call: PvmCall, taken: set[str]) -> list[Parameter]:
    """Return the further entries that functions.json has for a call which passes a message, such as context, size and
    buffer. `taken`: places of the record that the call's arguments have already."""
    more = {
        "peer": _input_parameter("tid", "RANK", "peer"),
        "comm": replace(_input_parameter("context", "COMMUNICATOR", "comm"), type="handle:COMM"),
        "count": _input_parameter("bytes", "XFER_NUM_ELEM", "count"),
        "datatype": replace(_input_parameter("packed", "DATATYPE", "datatype"), type="handle:DATATYPE"),
        "object": replace(_input_parameter("bufid", "MESSAGE", "object"), type="handle:MESSAGE"),
        "status": Parameter("status", "", "STATUS", "out", None, False, "status", "status"),
    }
    sends = "sends" in call.words
    if call.name in ("pvm_psend", "pvm_precv"):
        del more["object"]
    if sends:
        del more["status"]
    else:
        for place in ("count", "datatype", "object"):
            if place in more:
                more[place] = replace(more[place], direction="out")
    return [parameter for place, parameter in more.items() if place not in taken]


def _make_form(number: int, call: PvmCall, form: str) -> Function:
    """Return the entry in functions.json for a variant (`form`) of a function, such as its sending half. That of a
    group function has the parameters of a message instead of its own."""
    if "group" not in call.words:
        return replace(_make_function(number, call), name=call.name + form)
    like = PvmCall(call.name, (), frozenset({"sends" if form == ".send" else "takes"}), "")
    given = [_input_parameter("tag", "TAG", "tag"), *_message_parameters(like, {"tag"})]
    return Function(number, call.name + form, "int", tuple(given), None)


@cache
def make_functions() -> tuple[Function, ...]:
    """Return all functions of PVM and their variants, as functions.json has them. Their ids count from 1."""
    found: list[Function] = []
    number = 1
    for call in parse_calls():
        for i, form in enumerate(call.forms):
            if i == 0:
                found.append(_make_function(number, call))
            elif form:
                found.append(_make_form(number, call, form))
            number += 1
    return tuple(found)


def first_function_ids() -> dict[str, int]:
    """Return the first id of each function, by name."""
    return {function.name: function.id for function in make_functions() if "." not in function.name}


def to_json(library: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the table in the form of a run's functions.json."""
    return {
        "schema": "weft-functions/1",
        "system": "pvm",
        "mpi": library or {},
        "functions": [f.to_json() for f in make_functions()],
        "objects": {
            "COMM": {"1": "no context"},
            "DATATYPE": {"1": "none", **{str(i): name for i, name in DATATYPES.items()}},
            "MESSAGE": {"1": "no buffer"},
        },
        "datatype_sizes": {str(i): SIZES[name.removeprefix("PVM_")] for i, name in DATATYPES.items()},
        "combiners": [],
    }
