"""A collector runs with the extra `server` alone: what only analysis needs is not imported to start it."""

import subprocess
import sys

NOT_IN_SERVER = ("matplotlib", "jinja2", "pandas", "numba", "pyspark", "sphinx")


def test_a_collector_starts_without_what_only_analysis_needs():
    program = (
        "import sys\n"
        f"for name in {NOT_IN_SERVER!r}: sys.modules[name] = None\n"
        "import keyveil.collector.http.serve, keyveil.cli.stage, keyveil.cli.demo\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
