"""The `keyveil` command: thin, no mathematics, nothing heavy imported before it is needed."""

from __future__ import annotations

import sys

# Which extra brings what; the first that suits is named.
_EXTRAS = {
    "analysis": ("click", "rich", "numpy", "scipy", "pyarrow", "matplotlib", "jinja2"),
    "server": ("msgspec", "psycopg", "starlette", "uvicorn", "httptools", "uvloop"),
    "fast": ("numba", "llvmlite", "cryptography"),
    "spark": ("pyspark", "pandas", "py4j"),
}


def main() -> None:
    """Run the command; a refusal is one sentence on stderr and exit status 2."""
    from keyveil.errors import KeyveilError

    try:
        from keyveil.cli.app import keyveil

        keyveil(prog_name="keyveil")
    except KeyveilError as error:
        _refuse(str(error))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extra = next((extra for extra, brings in _EXTRAS.items() if package in brings), None)
        if extra is None:
            raise
        _refuse(f"this needs {package}, which comes with an extra; pip install 'keyveil[{extra}]'")


def _refuse(why: str) -> None:
    print(f"keyveil: {why}", file=sys.stderr)
    sys.exit(2)
