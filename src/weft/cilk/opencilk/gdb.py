"""gdb for a program of OpenCilk."""

from __future__ import annotations

from weft.cilk.opencilk.code import ProgramCode, folder_of
from weft.tasks.gdb import Frame, Gdb


class OpenCilkGdb(Gdb):
    """gdb for a program of OpenCilk; code that the runtime has compiled into it does not count as the program's."""

    def __init__(self, known: ProgramCode) -> None:
        super().__init__()
        self._code, self._folder = known, known.folder
        self.moves = 0
        self.console("set backtrace past-main on")  # main has a caller, too: where its own frame ends is asked of that
        if known.folder:
            self.console(f"skip -gfile {known.folder}/*")

    def stack(self, thread: int) -> list[Frame]:
        """Return all frames of a thread, innermost first. Frames at code of the runtime that is compiled into the
        program get no source file; where a frame is being resumed, they get the program's line.
        """
        frames = super().stack(thread)
        for frame in frames:
            if self._folder and folder_of(str(frame.get("fullname", ""))) == self._folder:
                del frame["fullname"]
                at = self._code.line_of_resumption(int(frame["addr"], 16), str(frame.get("func", "")))
                if at is not None:
                    frame["fullname"], frame["file"], frame["line"] = at.file, at.file, str(at.line)
        return frames

    def run(self, command: str) -> None:
        """Let the program run by a command of MI."""
        self.moves += 1
        super().run(command)
