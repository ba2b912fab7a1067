"""Generates C for PVM's recorder: ids, PVM's own functions (names.h), and the wrappers of calls."""

from __future__ import annotations

from collections.abc import Iterator

from weft.pvm.table import CODES, PACKED, PvmCall, first_function_ids, parse_calls

_FIELDS = {
    "tag": "event->tag = {0};", "count": "event->count = {0};",
    "object": "event->object = weft_pvm_find_or_make_buffer_id({0});", "peer": "event->peer = weft_pvm_find_rank({0});",
    "buffer": "event->buffer = (uint64_t)(uintptr_t){0};",
    "type": "event->datatype = WEFT_PVM_TYPE({0});",
}  # fmt: skip

_OWN = """
WEFT_COLD void *weft_pvm_find_real_function(const char *name);
WEFT_INLINE void *weft_pvm_own(void **kept, const char *name) {
    return LIKELY(*kept != NULL) ? *kept : (*kept = weft_pvm_find_real_function(name));
}""".splitlines()


def render_names_header() -> str:
    """Return the C text of names.h. It defines the functions' ids, and for each function of PVM a `real_NAME`, which
    calls PVM's own function and looks it up at the first use."""
    lines = ["#include <stdarg.h>", "#include <stdio.h>", ""]
    lines += [f"struct {name};" for name in ("pvmhostinfo", "pvmtaskinfo", "pvmminfo", "pvmmboxinfo")]
    lines += ["enum {", *(f"    F_{name} = {number}," for name, number in first_function_ids().items()), "};"]
    lines.append(f"#define WEFT_PVM_TYPE(code) ((code) > 0 && (code) < {len(CODES)} ? (uint32_t)(code) + 1 : "
                 f"(code) == 0 ? {len(CODES) + 1}u : WEFT_ID_NULL)")  # fmt: skip
    lines.append(f"enum {{ WEFT_PVM_PACKED = {PACKED} }};")
    lines += _OWN
    for name, given in _prototypes():
        lines.append(f"extern WEFT_HIDDEN int (*weft_next_{name})({given});")
        lines.append(
            f'#define real_{name} (*(__typeof__(weft_next_{name}))weft_pvm_own((void **)&weft_next_{name}, "{name}"))'
        )
    return "\n".join(lines) + "\n"


def _prototypes() -> Iterator[tuple[str, str]]:
    """Yield name and parameters of each function of PVM."""
    for call in parse_calls():
        yield call.name, ", ".join(declaration for declaration, _, _ in call.given) or "void"
    for name in ("pvm_vpackf", "pvm_vunpackf"):
        yield name, "const char *format, va_list arguments"


def render_wrappers() -> str:
    """Return the source of all generated wrappers."""
    lines = ['#include "pvm.h"', ""]
    lines += [f"int (*weft_next_{name})({given});" for name, given in _prototypes()]
    for call in parse_calls():
        if not call.by_hand:
            lines += ["", *render_wrapper(call)]
    return "\n".join(lines) + "\n"


def render_wrapper(call: PvmCall) -> Iterator[str]:
    """Yield the C lines of the wrapper of one PVM function. It writes the arguments into an event, makes the call, and
    records its result."""
    given = ", ".join(declaration for declaration, _, _ in call.given) or "void"
    passed = ", ".join(name for _, name, _ in call.given)
    group, messages = "group" in call.words, call.words & {"packs", "unpacks"}
    yield f"WEFT_PVM_PUBLIC int {call.name}({given}) {{"
    yield "    struct weft_thread *thread __attribute__((cleanup(weft_leave_call))) = weft_pvm_enter(SITE);"
    begun = f"weft_begin_event(thread, F_{call.name}, SITE)"
    yield f"    struct weft_event *event = thread && !weft_pvm_serves ? {begun} : NULL;"
    yield f"    if (!event) return real_{call.name}({passed});"
    places = [(name, *place.partition(":")[::2]) for _, name, place in call.given if place]
    for name, word, _ in places:
        if word in _FIELDS:
            yield "    " + _FIELDS[word].format(name)
    if messages:
        buffer = "real_pvm_getsbuf()" if "packs" in call.words else "real_pvm_getrbuf()"
        yield f"    event->object = weft_pvm_find_or_make_buffer_id({buffer});"
        yield f"    event->datatype = {call.datatype};"
    entry = [(n, w, k) for n, w, k in places if w in ("int", "text", "tids")]
    leaving = [(n, w, k) for n, w, k in places if w in ("out", "outs")]
    keeps = call.result in ("int", "tid")
    if entry or leaving or keeps:
        yield f"    struct weft_text text = weft_begin_tail(thread, event, {_render_tail_bound(entry)});"
        yield from _render_tail_writes(entry)
        yield "    weft_end_tail(thread, &text);"
    yield "    weft_publish_event(thread, event);"
    if group:
        yield "    uint64_t now = weft_ticks(weft_clock_kind); /* what it sends and waits for stands behind it */"
        yield f"    weft_pvm_group = F_{call.name};"
        yield "    weft_pvm_group_site = SITE;"
    yield f"    int code = real_{call.name}({passed});"
    if group:
        yield "    weft_pvm_group = 0;"
    else:
        yield "    uint64_t now = weft_ticks(weft_clock_kind);"
    if leaving or keeps:
        yield f"    text = weft_continue_tail(thread, {_render_tail_bound(leaving)});"
        yield from _render_tail_writes(leaving)
        if keeps:
            kept = "code > 0 ? weft_pvm_find_rank(code) : code" if call.result == "tid" else "code"
            yield f"    weft_write_signed(&text, {kept});"
        yield "    weft_end_tail(thread, &text);"
    if call.result == "new":
        yield "    event->object = weft_pvm_number_new_buffer(code);"
    yield "    weft_close_event(event, now, code < 0 ? code : 0);"
    yield "    return code;"
    yield "}"


def _render_tail_bound(values: list[tuple[str, str, str]]) -> str:
    """Return a C expression for the most bytes that some values can take at the end of an event's record (its tail)."""
    parts = ["32"]
    for name, word, length in values:
        if word == "text":
            parts.append(f"({name} ? strnlen({name}, 4096) + 16 : 16)")
        elif length:
            parts.append(f"({length} > 0 ? 12 * (uint64_t){length} + 16 : 16)")
        else:
            parts.append("12")
    return " + ".join(parts)


def _render_tail_writes(values: list[tuple[str, str, str]]) -> Iterator[str]:
    """Yield the C lines that write values to the end of an event's record (its tail)."""
    for name, word, length in values:
        if word == "text":
            yield f"    weft_write_string(&text, {name});"
        elif word == "int":
            yield f"    weft_write_signed(&text, {name});"
        elif word == "out":
            yield f"    weft_write_signed(&text, {name} && code >= 0 ? *{name} : 0);"
        elif word == "tids":
            yield f"    weft_write_unsigned(&text, {name} && {length} > 0 ? (uint64_t){length} : 0);"
            yield f"    for (int i = 0, before = 0; {name} && i < {length}; i++) {{"
            yield f"        int rank = weft_pvm_find_rank({name}[i]);"
            yield "        weft_write_signed(&text, rank - before);"
            yield "        before = rank;"
            yield "    }"
        else:
            yield f"    weft_write_numbers(&text, {name} && {length} > 0 ? {length} : 0, {name}, sizeof *{name});"
