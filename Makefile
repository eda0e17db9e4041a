# Everything a newcomer needs is here: python3 >= 3.11 and make are enough to start.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# Two workers have two cores: linear algebra on threads of its own takes the other's, and spins.
export OPENBLAS_NUM_THREADS ?= 1
# Installed packages keep to the tested versions.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test node postgres java chromium promtool bench-check check format lint types imports javascript docs bench nightly mutants \
        release stranger clean

demo: $(VENV)/.demo            ## the whole path, end to end
	$(BIN)/keyveil demo $(ARGS)

# What tests drive besides Python: Node and its packages, a database, Spark's Java, a browser, Prometheus' own tool.
TOOLS := node postgres java chromium promtool

test: $(VENV)/.dev $(TOOLS)    ## every test and every example in the documentation strings
	@! command -v npm >/dev/null || $(MAKE) --silent node_modules/.installed
	$(BIN)/pytest -q -n 2 -m "not nightly" $(ARGS)

# The JavaScript tests run inside pytest (tests/sdk); this finds Node and npm, or installs them where that is allowed.
node:
	@scripts/find_node.sh

# The shared store is tested on a PostgreSQL that the tests start themselves.
postgres:
	@scripts/find_postgres.sh

# The Spark tests start executors of their own; this finds Java 17 or newer, or installs it where that is allowed.
java:
	@scripts/find_java.sh

# The dashboard's tests drive a real browser (tests/dashboard).
chromium:
	@scripts/find_chromium.sh

# Alert rules are checked by Prometheus' own tool.
promtool: $(VENV)/.venv
	@scripts/find_promtool.sh

check: format lint types imports javascript test stranger   ## the gate

stranger: $(VENV)/.dev         ## from a clean environment and a file of one's own to a chart
	$(BIN)/python scripts/stranger.py

format: $(VENV)/.dev
	$(BIN)/ruff format --check .

lint: $(VENV)/.dev
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/mypy

imports: $(VENV)/.dev
	$(BIN)/lint-imports --no-cache

# The same for JavaScript: format, lint with import contracts, types of the client and of the dashboard.
JS_TOOLS := node_modules/.bin
JS_FORMATTED := '*.{js,json}' 'sdk/js/**/*.{js,ts,json,html}' 'src/keyveil/dashboard/static/**/*.{js,css,html}'

javascript: node_modules/.installed
	$(JS_TOOLS)/prettier --check --log-level warn --cache --cache-strategy content $(JS_FORMATTED)
	$(JS_TOOLS)/eslint --max-warnings 0 '*.js' sdk/js src/keyveil/dashboard/static
	$(JS_TOOLS)/tsc -p sdk/js
	$(JS_TOOLS)/tsc -p .

docs: $(VENV)/.docs            ## the site, in docs/_build/html; a warning is an error
	$(BIN)/sphinx-build -W -n --keep-going -q -b html -d docs/_build/doctrees docs docs/_build/html

bench: $(VENV)/.dev            ## speed and theory against measurement; DATA=folder adds the real data sets
	$(BIN)/python bench/theory.py
	$(BIN)/python bench/em_table.py
	$(BIN)/python bench/distributions.py
	$(BIN)/python bench/variance.py
	$(BIN)/python bench/one_pair.py
	$(BIN)/python bench/accuracy.py $(if $(DATA),--data $(DATA))
	$(BIN)/python bench/intervals.py
	$(BIN)/python bench/plan.py
	$(BIN)/python bench/long_records.py $(if $(DATA),--data $(DATA))
	$(BIN)/python bench/tuning.py
	$(BIN)/python bench/series.py
	$(BIN)/python bench/series_peers.py
	$(BIN)/python bench/averaging.py
	$(BIN)/python bench/issued.py
	$(BIN)/python bench/client.py
	$(BIN)/python bench/sealing.py
	$(BIN)/python bench/relay.py --json bench/results/relay.json
	$(BIN)/python bench/shuffle.py
	$(BIN)/python bench/relayed.py $(if $(DATA),--data $(DATA))
	$(BIN)/python bench/relayed_path.py $(if $(DATA),--data $(DATA))
	$(BIN)/python bench/collector.py --overload 60
	$(BIN)/python bench/direct.py
	$(BIN)/python bench/attacks.py
	$(BIN)/python bench/backup.py
	$(BIN)/python bench/ids.py
	$(BIN)/python bench/speed.py $(if $(DATA),--data $(DATA))
	bench/peers.sh .bench-venv
	$(BIN)/python bench/scale.py

bench-check: $(VENV)/.dev      ## bytes and words that must not change unnoticed
	$(BIN)/python bench/counts.py --check

mutants: $(VENV)/.dev $(TOOLS) ## plant faults one at a time; the tests must catch each
	@! command -v npm >/dev/null || $(MAKE) --silent node_modules/.installed
	$(BIN)/python scripts/mutants.py

nightly: $(VENV)/.dev mutants  ## the slow proofs
	$(BIN)/pytest -v -n 2 -m nightly --durations=25
	$(BIN)/python bench/theory.py

release: $(VENV)/.dev          ## both distributions, a bill of materials and checksums, in dist/
	$(BIN)/python scripts/release.py

clean:
	rm -rf $(VENV) node_modules .bench-venv docs/_build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

# Exactly the packages of package-lock.json; no package runs a script of its own.
node_modules/.installed: package.json package-lock.json | node
	npm ci --ignore-scripts --silent
	@touch $@

$(VENV)/.venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "keyveil needs Python 3.11 or newer; set PYTHON=path/to/python3"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q && apt-get install -yq python3-venv \
	  && $(PYTHON) -m venv $(VENV); } \
	  || { echo "could not make a virtual environment; on Debian: apt-get install python3-venv"; exit 1; }
	@touch $@

$(VENV)/.demo: $(VENV)/.venv pyproject.toml constraints.txt
	$(PIP) --editable '.[server]'
	@touch $@

$(VENV)/.docs: $(VENV)/.venv pyproject.toml constraints.txt
	$(PIP) --editable '.[docs]'
	@touch $@

$(VENV)/.dev: $(VENV)/.venv pyproject.toml constraints.txt
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.demo $(VENV)/.docs
