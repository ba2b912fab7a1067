"""Who can change what a path leads to, and the folder for what Weft builds: nobody else may write into it."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

TOLD: Final = "WEFT_INTERNAL_CACHE_TOLD"
"""In the environment: the cache that was told to be of no use: commands that a command starts do not repeat it."""
_MAX_LINKS: Final = 40
"""On the way to one path, as the kernel has it."""


def weakness(path: str | os.PathLike[str], below: str = "/", links: int = 0) -> str:
    """Why somebody else could change what a path leads to, in a few words; empty where only this user and root can.

    Every level counts, also of each link on the way: who may write into a folder without the sticky bit puts another
    folder in the place of ours. What is not there yet counts as what its folder is. `below`: a folder above it that
    was looked at before; `links`: how many were followed before.
    """
    whole = os.path.abspath(path)  # noqa: PTH100 (a Path for each level of each file would be a third of the cost)
    trusted = {os.geteuid(), 0, _owner_of_all()}
    levels = [below] if below == "/" else []
    for name in filter(None, whole.removeprefix(below).split("/")):
        levels.append((levels[-1] if levels else below).rstrip("/") + "/" + name)
    for level in levels:
        try:
            status = os.lstat(level)
            leads = os.readlink(level) if stat.S_ISLNK(status.st_mode) else ""  # noqa: PTH115 (as above)
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"{level}: {error.strerror}"
        if status.st_uid not in trusted:
            return f"{level} belongs to another user"
        if leads:
            if links >= _MAX_LINKS:
                return f"{level}: {os.strerror(errno.ELOOP)}"
            step = os.path.join(os.path.dirname(level), leads) + whole[len(level) :]  # noqa: PTH118, PTH120 (as above)
            return weakness(step, links=links + 1) or weakness(os.path.realpath(whole), links=links + 1)
        sticky = status.st_mode & stat.S_ISVTX and level != whole
        if status.st_mode & stat.S_IWOTH and not sticky:
            return f"everybody can write to {level}"
        if status.st_mode & stat.S_IWGRP and not sticky and not _of_us_alone(status.st_gid):
            return f"a group can write to {level}"
    return ""


@cache
def _owner_of_all() -> int:
    """Who owns the root folder: where users are mapped, as in a container, root has another number."""
    return os.lstat("/").st_uid


def _of_us_alone(group: int) -> bool:
    """Whether a group is the private one that many systems give to each user: called as the user, with no others."""
    # Seldom asked: only of a folder that a group can write to.
    import grp
    import pwd

    try:
        us, known = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return us.pw_gid == group and us.pw_name == known.gr_name and set(known.gr_mem) <= {us.pw_name}


def make_private(folder: Path) -> None:
    """Make a folder and what is missing above it for this user alone, whatever the umask says. OSError as of mkdir."""
    try:
        folder.mkdir(0o700, exist_ok=True)
    except FileNotFoundError:
        make_private(folder.parent)
        folder.mkdir(0o700, exist_ok=True)


def cache_folder() -> Path:
    """Where what Weft builds is kept: $WEFT_CACHE, else the user's cache folder. Nobody else has written what is there.

    Where that cannot be, it is a folder that can be, and is said once.
    """
    return _usable(os.path.abspath(_wanted()))  # noqa: PTH100 (as above)


def cache_folders() -> list[Path]:
    """Where to look for what was kept: the cache, and before it one of ours that can only be read from here."""
    writable, wanted = cache_folder(), Path(os.path.abspath(_wanted()))  # noqa: PTH100 (as above)
    return [writable] if wanted == writable or weakness(wanted) else [wanted, writable]


def is_kept(made: Path) -> bool:
    """Whether a file of the cache is there, and nobody else can have written it; else it is taken away."""
    root = cache_folder()
    if not made.exists():
        return False
    if not weakness(made, below=str(root) if made.is_relative_to(root) else "/"):
        return True
    if made.is_relative_to(root):
        import shutil  # seldom: a cache that others could write to

        for level in list(made.parents)[: len(made.relative_to(root).parts) - 1]:
            level.chmod(0o700)
        made.unlink()
        if made.parent != root:
            shutil.rmtree(made.parent, ignore_errors=True)
    return False


def _wanted() -> str:
    home = os.path.expanduser("~")  # noqa: PTH111 (where there is none, this stays as it is, and Path raises)
    own = "/nonexistent" if home == "~" else os.path.join(home, ".cache")  # noqa: PTH118 (as above)
    root = os.environ.get("WEFT_CACHE") or os.environ.get("XDG_CACHE_HOME") or own
    return os.path.join(root, "weft")  # noqa: PTH118 (as above)


@cache
def _usable(wanted: str) -> Path:
    """The cache that is asked for where it may be used, else a private one."""
    why = why_unusable(Path(wanted))
    if not why:
        return Path(wanted)
    private = _private()
    if os.environ.get(TOLD) != wanted:
        os.environ[TOLD] = wanted
        print(f"weft: the cache {wanted} is not used: {why}; what is built is kept in {private} "
              "(set WEFT_CACHE to a folder of yours)", file=sys.stderr)  # fmt: skip
    return private


def why_unusable(folder: Path) -> str:
    """Why a folder cannot be the cache, in a few words; empty where it can. It is made where it is missing."""
    if why := weakness(folder):
        return why
    try:
        if not os.access(folder, os.W_OK | os.X_OK):
            make_private(folder)
            if not os.access(folder, os.W_OK | os.X_OK):
                return "it cannot be written"
    except OSError as error:
        return f"it cannot be written ({error.strerror})"
    return weakness(folder)  # what was not there may have been made by another user meanwhile


def _private() -> Path:
    """A folder of this user's among the temporary ones: the same again, or one for this process alone."""
    # Seldom: where the cache cannot be used.
    import atexit
    import shutil
    import tempfile

    same = Path(tempfile.gettempdir()).resolve() / f"weft-cache-{os.geteuid()}"
    if not why_unusable(same):
        return same
    own = Path(tempfile.mkdtemp(prefix="weft-cache-"))
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return own


def append_own(path: Path, data: bytes) -> None:
    """Write at the end of a file of this user's, made for this user alone where it is missing.

    OSError for a link, and for what another user made or holds by another name: its path may have been foretold.
    """
    with os.fdopen(open_own(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as file:
        file.write(data)


def open_own(path: Path, how: int, mode: int = 0o600) -> int:
    """A descriptor of a regular file of this user's that has no other name. OSError for a link and any other file."""
    opened = os.open(path, how | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, mode)
    status = os.fstat(opened)
    if status.st_uid != os.geteuid() or status.st_nlink > 1 or not stat.S_ISREG(status.st_mode):
        os.close(opened)
        raise PermissionError(f"{path} is not a file of this user's alone")
    return opened


class Unfit(OSError):
    """A path leads to what is not read: no regular file, a link out of the folder, or too much."""


def open_regular(path: Path, root: Path | None = None) -> int:
    """A descriptor of a regular file for reading, of a folder that others may have written. OSError for anything else.

    A link is followed only where it stays within `root`. The folder that holds the file is the caller's to check.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_NOFOLLOW if root is not None else 0)
    linked = root is not None and path.is_symlink()
    opened = os.open(_within(path, root) if linked and root else path, flags)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise Unfit("is not a regular file")
    return opened


def _within(path: Path, root: Path) -> str:
    """Where a link leads. Unfit where that is outside of `root`."""
    real, home = os.path.realpath(path), os.path.realpath(root)
    if os.path.commonpath([real, home]) != home:
        raise Unfit(f"is a link to {real}, outside the run: not followed. Copy the run whole (cp -rL)")
    return real


def read_regular(path: Path, root: Path | None = None, most: int = 64 << 20) -> bytes:
    """What such a file holds. OSError where it cannot be had, or has more than `most` bytes."""
    with os.fdopen(open_regular(path, root), "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise Unfit(f"is larger than {most >> 20} MiB")
    return data


class Held:
    """A folder that is held open: what takes its path later is not touched, and no link in it is followed.

    `within`: the folder that it lies in. OSError where it is no folder, or another user's link to one.
    """

    _opened: int

    def __init__(self, path: Path, within: Held | None = None) -> None:
        self.path = path
        how = os.O_RDONLY | os.O_DIRECTORY
        if within is not None:
            self._opened = os.open(path.name, how | os.O_NOFOLLOW, dir_fd=within._opened)
            return
        try:
            self._opened = os.open(path, how | os.O_NOFOLLOW)
        except NotADirectoryError:  # a link: of this user's, who records on another disk, or root's
            if not stat.S_ISLNK((status := os.lstat(path)).st_mode) or status.st_uid not in (os.geteuid(), 0):
                raise
            self._opened = os.open(path, how)

    @property
    def owner(self) -> int:
        """The user that it belongs to."""
        return os.fstat(self._opened).st_uid

    def open(self, name: str) -> int:
        """Open a file in it for reading; OSError for a link."""
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._opened)

    def names(self) -> set[str]:
        """What is in it."""
        return set(os.listdir(self._opened))

    def make(self, name: str) -> int:
        """Make a file in it for writing. OSError where there is something of that name."""
        how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, how, 0o666, dir_fd=self._opened)

    def identity(self, name: str) -> tuple[int, int] | None:
        """Which file a name in it stands for now: its device and number there; None where there is none."""
        try:
            status = os.lstat(name, dir_fd=self._opened)
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    def rename(self, name: str, to: str) -> None:
        """Give a file in it another name in it."""
        os.rename(name, to, src_dir_fd=self._opened, dst_dir_fd=self._opened)

    def __del__(self) -> None:
        """Let it go."""
        if hasattr(self, "_opened"):
            os.close(self._opened)

    def write_whole(self, name: str, data: bytes) -> None:
        """Write a file whole or not at all: beside it, then in its place."""
        beside = f".{name}-{os.getpid()}-{time.monotonic_ns():x}"  # one that is there is not ours
        try:
            with os.fdopen(self.make(beside), "wb") as file:
                file.write(data)
            self.rename(beside, name)
        except OSError:
            self.remove(beside)
            raise

    def inside(self, name: str) -> Held:
        """A folder in it, held too. OSError where there is none, or a link."""
        return Held(self.path / name, self)

    def make_folder(self, name: str) -> None:
        """Make a folder in it."""
        os.mkdir(name, dir_fd=self._opened)

    def remove(self, *names: str) -> None:
        """Take away files, where they are there."""
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._opened)

    def remove_folders(self, *names: str) -> None:
        """Take away empty folders in it. OSError where one is not empty, or not there."""
        for name in names:
            os.rmdir(name, dir_fd=self._opened)

    def remove_itself(self) -> None:
        """Take it away, where it is empty and still where it was."""
        there, here = os.lstat(self.path), os.fstat(self._opened)
        if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
            self.path.rmdir()
