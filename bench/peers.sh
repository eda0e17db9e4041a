#!/bin/sh
# The libraries that bench/scale.py is compared with, at pinned versions, in an environment of their own.
# All three install from their wheels on Python 3.11; pure-ldp 1.2.0 names neither scikit-learn nor
# statsmodels among its requirements and does not import without them.
set -e
here=$(dirname "$0")
target=${1:-"$here/../.bench-venv"}
[ -x "$target/bin/python" ] || "${PYTHON:-python3}" -m venv "$target"
"$target/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$here/peers.txt"
"$target/bin/python" -c 'import opendp.prelude, multi_freq_ldpy, pure_ldp.frequency_oracles.local_hashing'
