"""The command `weft`, which is `python -m weft` too."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command that the command line names, and return its exit status."""
    if sys.argv[1:2] == ["attach"]:  # beside ranks that poll already the imports that follow take long
        from weft.attach.priority import raise_priority

        raise_priority()
    # Only then: see above.
    from weft.cli.main import main as named

    return named()


if __name__ == "__main__":
    sys.exit(main())
