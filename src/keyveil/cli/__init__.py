"""The `keyveil` command: thin, no mathematics, nothing heavy imported before it is needed."""

from __future__ import annotations

import sys

# Which extra brings what. The command's own is named if it brings what lacks, else the first that does.
_BOTH = ("click", "rich", "numpy", "scipy", "pyarrow")
_EXTRAS = {
    "analysis": (*_BOTH, "matplotlib", "jinja2"),
    "server": (*_BOTH, "msgspec", "psycopg", "starlette", "uvicorn", "httptools", "uvloop"),
    "fast": ("numba", "llvmlite", "cryptography"),
    "spark": ("pyspark", "pandas", "py4j"),
}
_EXTRAS_OF_COMMANDS = {
    "serve": ("server",),
    "verify": ("server",),
    "backup": ("server",),
    "demo": ("server",),
    "try": ("analysis", "server"),
}


def main() -> None:
    """Run the command; a refusal is one sentence on stderr and exit status 2."""
    from keyveil.errors import KeyveilError, MissingPackage

    try:
        from keyveil.cli.app import keyveil

        keyveil(prog_name="keyveil")
    except (ModuleNotFoundError, MissingPackage) as error:
        package = (error.name or "").partition(".")[0]
        if (extra := _bringing(package)) is None:
            raise
        _refuse(f"this needs {package}, which comes with an extra; pip install 'keyveil[{extra}]'")
    except KeyveilError as error:
        _refuse(str(error))


def _bringing(package: str) -> str | None:
    """The extra that brings a package to the command that was asked for."""
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    own = _EXTRAS_OF_COMMANDS.get(command, ())
    if any(package in _EXTRAS[extra] for extra in own):
        return ",".join(own)
    return next((extra for extra, brings in _EXTRAS.items() if package in brings), None)


def _refuse(why: str) -> None:
    print(f"keyveil: {why}", file=sys.stderr)
    sys.exit(2)
