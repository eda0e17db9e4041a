"""Every command of standard input, by this environment's own packages: how it ended and what it said.

{"packages": [what is installed], "said": {command: [exit status, words]}}
"""

import contextlib
import io
import json
import sys
from importlib import metadata


def main() -> None:
    from keyveil.cli import main as command

    said = {}
    for name, arguments in json.load(sys.stdin).items():
        sys.argv = ["keyveil", *arguments]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                command()
                code = 0
            except SystemExit as ended:
                code = ended.code or 0
            except BaseException as error:
                code = repr(error)
        said[name] = [code, err.getvalue() + out.getvalue()]
    print(json.dumps({"packages": [each.name for each in metadata.distributions()], "said": said}))


# A command that starts processes has them read this file again.
if __name__ == "__main__":
    main()
