"""The `keyveil` command: thin, no mathematics, nothing heavy imported before it is needed."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; a refusal is one sentence on stderr and exit status 2."""
    try:
        import click  # noqa: F401  (is the extra installed?)
    except ModuleNotFoundError:
        sys.exit("keyveil: the command line is an extra; pip install 'keyveil[analysis]'")
    from keyveil.cli.app import keyveil
    from keyveil.errors import KeyveilError

    try:
        keyveil()
    except KeyveilError as error:
        print(f"keyveil: {error}", file=sys.stderr)
        sys.exit(2)
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] in ("numpy", "scipy", "pyarrow", "matplotlib", "rich"):
            print(f"keyveil: this needs {error.name}; pip install 'keyveil[analysis]'", file=sys.stderr)
            sys.exit(2)
        raise
