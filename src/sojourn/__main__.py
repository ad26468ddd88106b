"""The command line's first step: answers `--version` at once, asks for Python 3.11, then hands over to `sojourn.cli`.

Imports: wire, cli, web, mcp.   Outside: none.
Runs on Python 3.8 so that an old Python gets one clear line instead of a syntax error.
"""

import sys

NEEDED = (3, 11)


def main() -> int:
    """Run the command line and return its exit status (the table in docs/errors.md); 2 on a Python older than 3.11."""
    if sys.argv[1:] == ["--version"]:
        from sojourn import __version__

        print("sojourn " + __version__)
        return 0
    if sys.version_info < NEEDED:
        print(
            "sojourn: the command line needs Python 3.11 or newer, this is {}.{} (sojourn.train works here)".format(
                *sys.version_info[:2]
            ),
            file=sys.stderr,
        )
        return 2
    from sojourn.cli.main import main as run_command

    return run_command()


if __name__ == "__main__":
    sys.exit(main())
