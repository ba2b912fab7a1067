"""Find out who can change what a path leads to, and provide folders and files that nobody else can write."""

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
"""In the environment: the cache that was reported as unusable: commands that a command starts do not repeat that."""
_MAX_LINKS: Final = 40
"""On the way to one path, as the kernel has it."""


def find_weakness(path: str | os.PathLike[str], below: str = "/", links: int = 0) -> str:
    """Return why somebody other than this user and root could change what a path leads to. Empty if nobody could.

    All folders above it count, also for each link on the way: whoever may write into a folder without the sticky bit
    can replace what is in it. For a path that does not exist yet, its existing part counts. `below`: a folder above the
    path that was checked before; `links`: how many links were followed before.
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
            return find_weakness(step, links=links + 1) or find_weakness(os.path.realpath(whole), links=links + 1)
        sticky = status.st_mode & stat.S_ISVTX and level != whole
        if status.st_mode & stat.S_IWOTH and not sticky:
            return f"everybody can write to {level}"
        if status.st_mode & stat.S_IWGRP and not sticky and not _is_private_group(status.st_gid):
            return f"a group can write to {level}"
    return ""


@cache
def _owner_of_all() -> int:
    """Return who owns the root folder: where users are mapped, as in a container, root has another number."""
    return os.lstat("/").st_uid


def _is_private_group(group: int) -> bool:
    """Return whether a group is this user's private one, which many systems give to each user: it has the user's name
    and no other members.
    """
    # Seldom asked: only of a folder that a group can write to.
    import grp
    import pwd

    try:
        us, known = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return us.pw_gid == group and us.pw_name == known.gr_name and set(known.gr_mem) <= {us.pw_name}


def make_private(folder: Path) -> None:
    """Make a folder and its missing parents so that only this user may enter them, whatever the umask says. OSError if
    that fails.
    """
    try:
        folder.mkdir(0o700, exist_ok=True)
    except FileNotFoundError:
        make_private(folder.parent)
        folder.mkdir(0o700, exist_ok=True)


def cache_folder() -> Path:
    """Return the folder for what Weft builds, into which nobody else can write: $WEFT_CACHE, else the user's cache
    folder.

    If that folder is not safe, return a private one, and print that once.
    """
    return _choose_cache(os.path.abspath(_requested_cache()))  # noqa: PTH100 (as above)


def cache_folders() -> list[Path]:
    """Return the folders in which to look for cached files: the cache, and before it one of ours that is read-only."""
    writable, wanted = cache_folder(), Path(os.path.abspath(_requested_cache()))  # noqa: PTH100 (as above)
    return [writable] if wanted == writable or find_weakness(wanted) else [wanted, writable]


def is_safely_cached(path: Path) -> bool:
    """Return whether a cached file exists and nobody else can have written it. An unsafe file in the cache is removed,
    with its folder.
    """
    root = cache_folder()
    if not path.exists():
        return False
    if not find_weakness(path, below=str(root) if path.is_relative_to(root) else "/"):
        return True
    if path.is_relative_to(root):
        import shutil  # seldom: a cache that others could write to

        for level in list(path.parents)[: len(path.relative_to(root).parts) - 1]:
            level.chmod(0o700)
        path.unlink()
        if path.parent != root:
            shutil.rmtree(path.parent, ignore_errors=True)
    return False


def _requested_cache() -> str:
    """Return the path of the cache folder that the environment asks for, or else the usual one."""
    home = os.path.expanduser("~")  # noqa: PTH111 (where there is none, this stays as it is, and Path raises)
    own = "/nonexistent" if home == "~" else os.path.join(home, ".cache")  # noqa: PTH118 (as above)
    root = os.environ.get("WEFT_CACHE") or os.environ.get("XDG_CACHE_HOME") or own
    return os.path.join(root, "weft")  # noqa: PTH118 (as above)


@cache
def _choose_cache(requested_path: str) -> Path:
    """Return the requested cache folder if it is safe. If not, return a private folder, and say so once on standard
    error. `requested_path`: absolute.
    """
    why = prepare_cache_folder(Path(requested_path))
    if not why:
        return Path(requested_path)
    private = _make_private_cache()
    if os.environ.get(TOLD) != requested_path:
        os.environ[TOLD] = requested_path
        print(f"weft: the cache {requested_path} is not used: {why}; what is built is kept in {private} "
              "(set WEFT_CACHE to a folder of yours)", file=sys.stderr)  # fmt: skip
    return private


def prepare_cache_folder(folder: Path) -> str:
    """Make a folder for the cache if it is missing, and return why it cannot be used as one. Empty if it can."""
    if why := find_weakness(folder):
        return why
    try:
        if not os.access(folder, os.W_OK | os.X_OK):
            make_private(folder)
            if not os.access(folder, os.W_OK | os.X_OK):
                return "it cannot be written"
    except OSError as error:
        return f"it cannot be written ({error.strerror})"
    return find_weakness(folder)  # what was not there may have been made by another user meanwhile


def _make_private_cache() -> Path:
    """Return a private cache folder, below the folder for temporary files. It is the same one in each process of this
    user, or, if that is not safe, one for this process only.
    """
    # Seldom: where the cache cannot be used.
    import atexit
    import shutil
    import tempfile

    same = Path(tempfile.gettempdir()).resolve() / f"weft-cache-{os.geteuid()}"
    if not prepare_cache_folder(same):
        return same
    own = Path(tempfile.mkdtemp(prefix="weft-cache-"))
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    return own


def append_own(path: Path, data: bytes) -> None:
    """Append to a file of this user. A missing file is made so that only this user can access it.

    OSError for a link, for a file of another user, and for a file that has other names: somebody may have guessed the
    path.
    """
    with os.fdopen(open_own(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as file:
        file.write(data)


def open_own(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a file, and return its descriptor. OSError unless it is a regular file of this user that has no other name.
    `flags`, `mode`: as for os.open.
    """
    opened = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, mode)
    status = os.fstat(opened)
    if status.st_uid != os.geteuid() or status.st_nlink > 1 or not stat.S_ISREG(status.st_mode):
        os.close(opened)
        raise PermissionError(f"{path} is not a file that only this user can write")
    return opened


class Unfit(OSError):
    """A path leads to something that is not read: no regular file, a link out of the folder, or too large."""


def open_regular(path: Path, root: Path | None = None) -> int:
    """Open a file for reading, in a folder into which others may have written, and return its descriptor. OSError
    unless it is a regular file.

    A link is followed only if it stays within `root`. The caller must check the folder of the file.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_NOFOLLOW if root is not None else 0)
    linked = root is not None and path.is_symlink()
    opened = os.open(_resolve_link(path, root) if linked and root else path, flags)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise Unfit("is not a regular file")
    return opened


def _resolve_link(path: Path, root: Path) -> str:
    """Return the path to which a link leads. Raises Unfit if it is outside `root`."""
    real, home = os.path.realpath(path), os.path.realpath(root)
    if os.path.commonpath([real, home]) != home:
        raise Unfit(
            f"is a link to {real}, outside the run, which Weft does not follow: copy the run with what its links lead "
            "to (cp -rL)"
        )
    return real


def read_regular(path: Path, root: Path | None = None, most_bytes: int = 64 << 20) -> bytes:
    """Return the content of a regular file; `root` as for `open_regular`. OSError if the file cannot be read, or has
    more than `most_bytes`.
    """
    with os.fdopen(open_regular(path, root), "rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise Unfit(f"is larger than {most_bytes >> 20} MiB")
    return data


class OpenFolder:
    """An open folder: what takes its path later is not touched, and no link in it is followed.

    `within`: the open folder that contains it. Raises OSError if it is no folder, or another user's link to one.
    """

    _opened: int

    def __init__(self, path: Path, within: OpenFolder | None = None) -> None:
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
        """Return the user that it belongs to."""
        return os.fstat(self._opened).st_uid

    def open(self, name: str) -> int:
        """Open a file in it for reading; OSError for a link."""
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._opened)

    def names(self) -> set[str]:
        """Return what is in it."""
        return set(os.listdir(self._opened))

    def make(self, name: str) -> int:
        """Make a file in it for writing. OSError where there is something of that name."""
        how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, how, 0o666, dir_fd=self._opened)

    def identity(self, name: str) -> tuple[int, int] | None:
        """Return (device, inode) of the file that has this name in the folder now. None if there is none."""
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
        """Write a file completely or not at all: it is written under another name, then renamed."""
        beside = f".{name}-{os.getpid()}-{time.monotonic_ns():x}"  # one that is there is not ours
        try:
            with os.fdopen(self.make(beside), "wb") as file:
                file.write(data)
            self.rename(beside, name)
        except OSError:
            self.remove(beside)
            raise

    def inside(self, name: str) -> OpenFolder:
        """Return a folder in it, held too. OSError where there is none, or a link."""
        return OpenFolder(self.path / name, self)

    def make_folder(self, name: str) -> None:
        """Make a folder in it."""
        os.mkdir(name, dir_fd=self._opened)

    def remove(self, *names: str) -> None:
        """Remove files of the folder by their names. A name without a file is ignored."""
        for name in names:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._opened)

    def remove_folders(self, *names: str) -> None:
        """Take away empty folders in it. OSError where one is not empty, or not there."""
        for name in names:
            os.rmdir(name, dir_fd=self._opened)

    def remove_itself(self) -> None:
        """Remove the folder if it is empty and still at its path."""
        there, here = os.lstat(self.path), os.fstat(self._opened)
        if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
            self.path.rmdir()
