# The two commands of the README are `make demo` and `make test`. Nothing but Python 3.11+ is needed beforehand.
PYTHON ?= python3
# Most tests wait for processes: on two cores three at a time take half the time of one.
JOBS ?= 3
# Tests write and flush thousands of small databases: in memory that takes a third of the time, where 8 GB are free for it.
TEST_TMP ?= $(shell [ "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 8000000 ] 2>/dev/null && echo /dev/shm)
# Byte code is kept whatever the environment says: a test run starts hundreds of processes, and each would compile anew.
export PYTHONDONTWRITEBYTECODE :=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo run test check docs dist lock clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.run
	$(BIN)/telemetry-gateway demo $(if $(KEEP),--keep)

run: $(VENV)/.run
	$(BIN)/telemetry-gateway run

test: $(VENV)/.dev
	$(if $(TEST_TMP),TMPDIR=$(TEST_TMP)) $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(TESTS)

# The site, into build/site; a broken link is an error.
docs: $(VENV)/.dev
	$(BIN)/mkdocs build --strict --quiet

check: $(VENV)/.dev docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --no-warn-unreachable --cache-dir .mypy_cache/darwin
	$(BIN)/mypy --platform win32 --no-warn-unreachable --cache-dir .mypy_cache/win32
	$(BIN)/lint-imports

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python requirements.lock pyproject.toml
	$(PIP) install --require-hashes -r requirements.lock
	$(PIP) install --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.dev: $(VENV)/.run requirements-dev.lock
	$(PIP) install --require-hashes -r requirements-dev.lock
	touch $@

# Wheel and sdist, in dist/.
dist: $(VENV)/.dev
	rm -rf dist
	$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist .
	rm -rf build *.egg-info

# Newer versions of everything, written to the two lock files.
lock: $(VENV)/bin/python
	$(PIP) install uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-emit-index-url --no-header --extra demo --extra build -o requirements.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-emit-index-url --no-header --extra demo --extra build --group dev -o requirements-dev.lock pyproject.toml

clean:
	rm -rf $(VENV) .venv-clients build dist *.egg-info
