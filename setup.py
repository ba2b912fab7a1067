"""Builds weft.native._kernel: the record writer and the fast kernels, one shared object loaded with ctypes.

Before, Python is made of the headers that both sides share (weft.native.generate): no layout is written twice.

It uses no Python API (so no Python headers are needed, and one file serves every Python version).
"""

import shutil
import sys
from pathlib import Path

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError, ExecError
from setuptools.modified import newer_group

sys.path.insert(0, "src")

NATIVE = Path("src/weft/native")

sources = [NATIVE / "module.c", *sorted(NATIVE.glob("record.c")), *sorted(NATIVE.glob("kernel/*.c"))]
values = Path("src/weft/values/native")
headers = [*sorted(NATIVE.glob("*.h")), *sorted(NATIVE.glob("kernel/*.h"))]


def man_pages() -> list[str]:
    """Write the manual pages, which come from the commands' own parsers."""
    try:
        from weft.cli import _man
    except ImportError as error:
        print(f"no manual pages: {error}", file=sys.stderr)
        return []
    return [str(path) for path in _man.write_pages(Path("build/man"))]


class InstallPages(Distribution().get_command_class("install_data")):
    """Installs the manual pages, written only where something is installed."""

    def run(self) -> None:
        """Write and copy them."""
        self.data_files = [(folder, man_pages()) for folder, _ in self.data_files]
        super().run()


class BuildKernels(build_ext):
    """Builds them, or says in one line what is missing."""

    def run(self) -> None:
        """Write what is made of the headers, compile and link."""
        self.in_checkout = bool(self.inplace)  # which setuptools forgets meanwhile
        from weft.native import generate, shared  # which every other command of setuptools goes without

        layouts = map(str, generate.write_files(Path("build/bridge")))
        self.extensions[0].include_dirs = [str(folder) for folder in shared.INCLUDED]
        self.extensions[0].sources = list(dict.fromkeys([*self.extensions[0].sources, *layouts]))
        try:
            super().run()
        except (CCompilerError, ExecError) as error:
            sys.exit(
                f"weft-debugger is built with a C compiler (apt-get install gcc, or set CC), and it failed: {error}"
            )

    def build_extension(self, ext: Extension) -> None:
        """Compile one, unless the checkout has it newer than its sources: `pip install --editable` leaves it there."""
        here = Path("src", self.get_ext_filename(self.get_ext_fullname(ext.name)))
        built = Path(self.get_ext_fullpath(ext.name))
        is_new = here.exists() and not newer_group([*ext.sources, *ext.depends], str(here))
        if self.in_checkout and is_new and not built.exists() and not self.force:
            built.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(here, built)
        else:
            super().build_extension(ext)


setup(
    cmdclass={"build_ext": BuildKernels, "install_data": InstallPages},
    data_files=[("share/man/man1", [])],
    ext_modules=[
        Extension(
            "weft.native._kernel",
            sources=[str(path) for path in sources],
            depends=[str(path) for path in headers],
            # -O3 takes more than twice as long to compile, and analyses are not measurably faster with it; -g, which
            # Python adds, a tenth.
            extra_compile_args=["-std=c11", "-O2", "-g0", "-Wall", "-D_GNU_SOURCE"],
            extra_link_args=["-pthread"],
            py_limited_api=True,
        ),
        # What the probes of a program call: loaded into it by itself, so that nothing else of Weft is there.
        Extension(
            "weft.values._values",
            sources=sorted(map(str, values.glob("*.c"))),
            depends=sorted(
                map(str, [*values.glob("*.h"), *values.glob("include/*.h"), "src/weft/recorder/own_memory.h"])
            ),
            include_dirs=["src/weft"],
            extra_compile_args=["-std=c11", "-O3", "-g0", "-Wall", "-D_GNU_SOURCE", "-fvisibility=hidden"],
            extra_link_args=["-pthread"],
            py_limited_api=True,
        ),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
