"""Render the debugger's answers as lines for people. Ranks in the same state, or with equal values, share a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from weft.base.words import plural, rank_words
from weft.systems import system

Answer = dict[str, Any]


def tell(answer: Answer) -> list[str]:
    """Return an answer of the debugger as lines of text."""
    return _TELL[answer["kind"]](answer)


def merge_equal_lines(rows: Iterable[tuple[int, str]], indent: str = "  ") -> list[str]:
    """Return lines `ranks 0-2: text`: ranks with the same text share one, sorted by their first rank. Further lines of
    a text follow indented. `rows`: pairs of a rank and its text.
    """
    where: dict[str, list[int]] = {}
    for rank, text in rows:
        where.setdefault(text, []).append(rank)
    names = {text: rank_words(ranks) for text, ranks in where.items()}
    width = max((len(name) for name in names.values()), default=0)
    lines = []
    for text in where:
        first, *more = text.split("\n")
        lines.append(f"{indent}{names[text]:<{width}}  {first}")
        lines += [f"{indent}{'':<{width}}  {line}" for line in more]
    return lines


def describe_thread(row: Answer) -> str:
    """Return in words where a thread is, without its rank."""
    name = f"thread {row['thread']} " if row["thread"] else ""
    return name + _state_words(row)


def _state_words(row: Answer) -> str:
    """Return in words where a thread is: `at solver.py:40 in step`, `before event 7: MPI_Recv(...)`, `waiting in event
    7: ...`. Its rank and number are not mentioned.
    """
    state = row["state"]
    if state == "ended":
        return f"at the end, in {system(row['system']).last} or past it"
    if state == "unborn":
        return "not spawned yet"
    if state == "gone":
        return f"process ended{_after(row.get('last'))}"
    if state == "diverged":
        return f"has left its record{'' if row['next'] is None else ': ' + row['next']['call'] + ' was recorded'}"
    if state == "line":
        at = row["at"]
        signal = f"{row['signal']} " if "signal" in row else ""
        text = f"  {at['text']}" if at["text"] else ""
        task = f"task {row['task']} " if "task" in row else ""
        task += f"{row['news']['thread']} " if "thread" in row.get("news", {}) else ""
        return f"{signal}{task}at {_line(at)} in {at['function']}{text}{_news_suffix(row)}"
    if state == "before":
        if row["next"] is None:
            return "at the end of its record"
        return f"before event {row['next']['event'][1]}: {row['next']['call']}"
    if state == "polls":
        expected = (
            "its record is at its end" if row["next"] is None else f"its record goes on with {row['next']['call']}"
        )
        return f"polls in vain: {expected}"
    if state == "outside":
        return f"outside of {row['system']}" + (
            f", next is event {row['next']['event'][1]}: {row['next']['call']}" if row["next"] else ""
        )
    return f"waiting in event {row['call']['event'][1]}: {row['call']['call']}"


def _after(call: Answer | None) -> str:
    return "" if call is None else f" after event {call['event'][1]}: {call['call']}"


def _line(at: Answer) -> str:
    return f"{Path(at['file']).name}:{at['line']}" if at["file"] and at["line"] else "?"


def _render_ranks(answer: Answer) -> list[str]:
    return merge_equal_lines((row["rank"], describe_thread(row)) for row in answer["ranks"])


def _news_suffix(row: Answer) -> str:
    """Return what else a stop reports, as text to append to its line: a changed value, a returned value, or a condition
    that cannot be computed. "" if there is nothing.
    """
    news = row.get("news", {})
    if "returned" in news:
        return f"; returned {news['returned']}"
    if "expression" in news:
        return f"; {change_text(news['expression'], news['old'], news['new'])}"
    return f"; the condition cannot be computed: {news['trouble']}" if "trouble" in news else ""


def change_text(expression: str, old: str, new: str, *, over: bool = False) -> str:
    """Return in words that a watched value has changed. Equal `old` and `new`: its frame has returned; `over`: both
    happened.
    """
    if old == new:
        return f"{expression} is out of scope, and no longer watched"
    gone = "; it is out of scope now and no longer watched" if over else ""
    return f"{expression}: {old or '(none)'} -> {new or '(none)'}{gone}"


def _render_stopped(answer: Answer) -> list[str]:
    """Return as lines where all ranks are after a command that let them run, with the displayed expressions and
    notes.
    """
    if answer["over"]:
        code = answer["exit_code"]
        gone = merge_equal_lines(
            (row["rank"], describe_thread(row)) for row in answer["ranks"] if row["state"] != "ended"
        )
        return [f"the program has ended{'' if code in (0, None) else f', with status {code}'}", *gone]
    lines = _render_ranks(answer)
    for one in answer.get("shown", []):
        lines += _render_displayed(one)
    for row in answer.get("elsewhere", []):
        lines.append(f"no replay can stop before event {row['call']['event'][1]} of rank {row['rank']}, "
                     f"{row['call']['call']}: rank {row['rank']} is at the next place where one can")  # fmt: skip
    if left := answer.get("left"):
        lines.append(f"{rank_words(left)} moved on to {'its' if len(left) == 1 else 'their'} next call: "
                     "a step back can return only one rank to its line")  # fmt: skip
    for row in answer.get("waiting", []):
        lines.append(f"rank {row['rank']} cannot continue: {_explain_wait(row)}")
    return lines


def _explain_wait(row: Answer) -> str:
    """Return why a rank does not get further than the call in which it waits. `row`: one of the rows `waiting` of an
    answer.
    """
    call = row["call"]["call"]
    if not row["more"]:
        return f"as in the record, {call} is its last call"
    if row["stopped"]:
        others = f"{rank_words(row['stopped'])} {'is' if len(row['stopped']) == 1 else 'are'} still"
        return f"it waits in {call}, while {others} where the last command stopped"
    return f"it waits in {call}, which returned when the run was recorded"


def _render_rank(answer: Answer) -> list[str]:
    return [f"rank {answer['focus']} {describe_thread(answer['stands'])}"]


def _render_where(answer: Answer) -> list[str]:
    """Return the stacks of ranks as lines; ranks with equal stacks share theirs."""
    rows = []
    for stack in answer["stacks"]:
        lines = [f"#{i} {_line(f)} in {f['function']}" + (f"  {f['text']}" if f["text"] else "")
                 for i, f in enumerate(stack["frames"])]  # fmt: skip
        rows.append(
            (
                stack["rank"],
                "\n".join([describe_thread(stack["stands"]), *(lines or ["in no function of the program"])]),
            )
        )
    return merge_equal_lines(rows)


def _render_print(answer: Answer) -> list[str]:
    return merge_equal_lines(
        (row["rank"], row["value"] if "value" in row else f"({row['error']})") for row in answer["values"]
    )


def _render_list(answer: Answer) -> list[str]:
    return [f"{'->' if row['here'] else '  '} {row['line']:4}  {row['text']}" for row in answer["lines"]]


def _render_break(answer: Answer) -> list[str]:
    return ["breakpoint " + _breakpoint_line(answer["breakpoint"])]


def _breakpoint_line(b: Answer) -> str:
    """Return one line for a breakpoint: `1: solver.py:40, in the source on rank 2`."""
    what = f"{plural(b['calls'], 'call')} of the record" if b["by"] == "call" else "in the source"
    on = "" if b["rank"] is None else f" on rank {b['rank']}"
    scope = f", task {b['task']}{' and its descendants' * b['descendants']}" if "task" in b else ""
    more = (", once" if b.get("once") else "") + (
        f", {plural(b['ignored'], 'visit')} ignored" if "ignored" in b else ""
    )
    return f"{b['id']}: {b['where']}, {what}{on}{scope}{more}"


def _render_skip(answer: Answer) -> list[str]:
    return [f"`step` steps over {name} from now on" for name in answer["skipped"]] or ["nothing is skipped"]


def _render_breakpoints(answer: Answer) -> list[str]:
    """Return all breakpoints and watchpoints, one in a line."""
    watches = [f"{w['id']}: watch {w['expression']} on rank {w['rank']}" for w in answer.get("watches", [])]
    return [*(_breakpoint_line(b) for b in answer["breakpoints"]), *watches] or ["no breakpoints"]


def _render_watch(answer: Answer) -> list[str]:
    return [f"breakpoint {id_}: watch {answer['expression']} on rank {rank}"
            for id_, rank in zip(answer["ids"], answer["ranks"], strict=True)]  # fmt: skip


def _render_frame(answer: Answer) -> list[str]:
    """Return the selected frame of a rank as a line."""
    frame = answer["frame"]
    text = f"  {frame['text']}" if frame["text"] else ""
    return [f"rank {answer['rank']} #{answer['level']} {_line(frame)} in {frame['function']}{text}"]


def _render_locals(answer: Answer) -> list[str]:
    """Return the variables of ranks as lines; ranks with equal values share theirs."""
    rows = []
    for row in answer["ranks"]:
        lines = [f"{v['name']} = {v['value']}" for v in row.get("variables", [])]
        rows.append((row["rank"], f"({row['error']})" if "error" in row else "\n".join(lines or ["no variables"])))
    return merge_equal_lines(rows)


def _render_set(answer: Answer) -> list[str]:
    """Return as lines the new values of a variable that was set, and a warning that the replay may now leave its
    record.
    """
    rows = ((r["rank"], f"{answer['target']} = {r['value']}" if "value" in r else f"({r['error']})")
            for r in answer["values"])  # fmt: skip
    return [*merge_equal_lines(rows), answer["warning"]]


def _render_display(answer: Answer) -> list[str]:
    return [line for one in answer["shown"] for line in _render_displayed(one)] or ["nothing is displayed"]


def _render_displayed(one: Answer) -> list[str]:
    """Return an expression that is displayed at every stop, with its values on the ranks, as lines."""
    lines = _render_print(one)
    head = f"{one['id']}: {one['expression']} ="
    return [f"{head} {lines[0].strip()}"] if len(lines) == 1 else [head, *lines]


def _render_message(answer: Answer) -> list[str]:
    """Return a message as lines: source, destination, tag and communicator, its send, its receive, and its content."""
    sent, received = answer["sent"], answer["received"]
    if sent is None:
        return [f"{answer['event']['call']}: it received no recorded message"]
    what = f"{answer['count']} x {answer['datatype']}" + (
        f", {answer['bytes']:,} bytes" if answer["bytes"] is not None else ""
    )
    lines = [f"from rank {answer['source']} to rank {answer['dest']}, tag {answer['tag']}, {answer['comm']}: {what}"]
    lines.append(f"  sent      event {sent['event'][1]} of rank {answer['source']}: {sent['call']}")
    if received is not None:
        lines.append(f"  received  event {received['event'][1]} of rank {answer['dest']}: {received['call']}")
    else:
        lines.append("  received  never, in this record")
    return [*lines, f"  holds     {content_text(answer)}"]


def _render_messages(answer: Answer) -> list[str]:
    """Return as lines the messages at a stop that were sent and not received, and the receives that wait."""
    rows = [("sent and not received", _sent_line(row)) for row in answer["sent"]]
    rows += [("posted and waiting", _posted_line(row)) for row in answer["posted"]]
    lines: list[str] = []
    for head, text in rows:
        lines += [head] if head not in lines else []
        lines.append(f"  {text}")
    for key, what in (("sent", "messages"), ("posted", "receives")):
        more = answer[f"all_{key}"] - len(answer[key])
        lines += [f"and {more:,} more {what}: name ranks, `messages @0`"] if more else []
    return lines or ["all messages sent so far have been received, and no receive is waiting"]


def _sent_line(row: Answer) -> str:
    """Return one line for a message that was sent and not received."""
    size = "" if row["bytes"] is None else f", {plural(row['bytes'], 'byte')}"
    by = row["received"]
    if by is None:
        then = "never received in this record"
    else:
        then = f"{'awaited' if row['posted'] else 'to be received'} by event {by['event'][1]}: {by['call']}"
    sent = f"event {row['sent']['event'][1]}: {row['sent']['call']}"
    return f"rank {row['source']} -> rank {row['dest']}, tag {row['tag']}, {row['comm']}{size}; {sent}; {then}"


def _posted_line(row: Answer) -> str:
    """Return one line for a receive that was posted and has not got its message."""
    source = "any rank" if row["source"] is None else f"rank {row['source']}"
    tag = "any tag" if row["tag"] is None else f"tag {row['tag']}"
    message, receive = row["message"], row["receive"]
    if message is None:
        then = "no recorded message comes to it"
    else:
        rank, event = message["event"]
        then = f"its message {'is' if row['sent'] else 'will be'} event {event} of rank {rank}"
    call = f"event {receive['event'][1]}: {receive['call']}"
    return f"rank {row['rank']} <- {source}, {tag}, {row['comm']}; {call}; {then}"


def content_text(answer: Answer) -> str:
    """Return the content of a message as text, or in brackets why it was not read."""
    if "unread" in answer:
        return f"(not read: {answer['unread']})"
    if "object" in answer:
        return str(answer["object"])
    if "text" in answer:
        return repr(answer["text"])
    more = f" and {answer['more']:,} more" if answer["more"] else ""
    return " ".join(map(str, answer["values"])) + more if answer["values"] else "nothing"


def _render_help(answer: Answer) -> list[str]:
    return list(answer["lines"])


def _render_text(answer: Answer) -> list[str]:
    return [answer["text"]] if answer["text"] else []


_TELL: dict[str, Callable[[Answer], list[str]]] = {
    "ranks": _render_ranks, "stopped": _render_stopped, "rank": _render_rank, "where": _render_where,
    "print": _render_print, "list": _render_list,
    "messages": _render_messages, "frame": _render_frame, "locals": _render_locals, "set": _render_set,
    "watch": _render_watch, "display": _render_display,
    "skip": _render_skip, "break": _render_break, "breakpoints": _render_breakpoints, "message": _render_message,
    "help": _render_help, "text": _render_text,
}  # fmt: skip
