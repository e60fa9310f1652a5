# The two commands of the README are `make demo` and `make test`. Nothing but Python 3.11+ is needed beforehand.
PYTHON ?= python3
# Most tests wait for processes: on two cores three at a time take half the time of one.
JOBS ?= 3
# Tests write and flush thousands of small databases: in memory that takes a third of the time, where 8 GB are free for it.
TEST_TMP ?= $(shell [ "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 8000000 ] 2>/dev/null && echo /dev/shm)
# Byte code is kept whatever the environment says: a test run starts hundreds of processes, and each would compile anew.
export PYTHONDONTWRITEBYTECODE :=
PYTHON_TESTS := tests/e2e/test_canary.py tests/e2e/test_renamed_keys.py $(addprefix tests/unit/ingest/test_,workers.py ancestors.py stamped.py large_payloads.py)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo run test quick newest python-test explore check docs dist native native-wheels native-check go-check bench-guard lock clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.run
	$(BIN)/telemetry-gateway demo $(if $(KEEP),--keep)

run: $(VENV)/.run
	$(BIN)/telemetry-gateway run

test: $(VENV)/.dev
	$(if $(TEST_TMP),TMPDIR=$(TEST_TMP)) $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(TESTS)

# The inner loop, in under a minute on two cores: linters, types, import contracts and the quick files of tests/unit.
quick: $(VENV)/.dev
	$(if $(TEST_TMP),TMPDIR=$(TEST_TMP)) $(BIN)/python -m tests.quick

# The newest releases of the dependencies, beyond the upper bounds of pyproject.toml too, in an environment of their own.
newest: $(VENV)/.dev
	$(if $(TEST_TMP),TMPDIR=$(TEST_TMP)) $(BIN)/python -m tests.newest $(TESTS)

# Cases that no run had before, for so many minutes; a seed that finds something is stored, for `make test` (CONTRIBUTING.md).
MINUTES ?= 30
explore: $(VENV)/.dev
	$(if $(TEST_TMP),TMPDIR=$(TEST_TMP)) $(BIN)/python -m tests.explore --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

# What the native extension does where it is built, done in Python.
python-test: $(VENV)/.dev
	TELEMETRY_GATEWAY_READER=python $(MAKE) test TESTS="$(PYTHON_TESTS)"

# The site, into build/site; a broken link is an error.
docs: $(VENV)/.dev
	$(BIN)/mkdocs build --strict --quiet

check: $(VENV)/.dev docs native-check go-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --no-warn-unreachable --cache-dir .mypy_cache/darwin
	$(BIN)/mypy --platform win32 --no-warn-unreachable --cache-dir .mypy_cache/win32
	$(BIN)/lint-imports

# The native extension (docs/install.md), into the virtual environment; nothing where there is no cargo.
native: $(VENV)/.dev
	@if command -v cargo >/dev/null; then $(BIN)/maturin develop --release --locked --quiet --manifest-path native/Cargo.toml; \
	else echo "no native extension: cargo is not installed. Everything works without it."; fi

# Its wheels for Linux (glibc 2.17 or newer) on x86_64 and aarch64, into dist/: rustup brings the targets, Zig links.
native-wheels: $(VENV)/.dev
	rustup target add x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
	$(PIP) install ziglang==0.17.1
	for machine in x86_64 aarch64; do \
	  PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/maturin build --release --locked --manifest-path native/Cargo.toml \
	    --target $$machine-unknown-linux-gnu --compatibility manylinux2014 --zig --out dist || exit 1; \
	done

native-check: $(VENV)/.dev
	@if command -v cargo >/dev/null; then cd native && cargo fmt --check && cargo clippy --quiet --release --locked -- -D warnings; fi

# Whether a hot path became markedly slower than the committed ratio to a reference loop, without the native extension and, where
# it is installed, with it. `$(BIN)/python -m benchmarks.guard --update` writes the ratios.
bench-guard: $(VENV)/.dev
	TELEMETRY_GATEWAY_READER=python $(BIN)/python -m benchmarks.guard
	@if $(BIN)/python -c 'import telemetry_gateway_native' 2>/dev/null; then TELEMETRY_GATEWAY_READER=native $(BIN)/python -m benchmarks.guard; fi

# The sender and sink of the side-by-side benchmark; nothing where there is no Go.
GO_CODE := benchmarks/side_by_side/peerbench
go-check:
	@if command -v gofmt >/dev/null; then files=$$(gofmt -l $(GO_CODE)); [ -z "$$files" ] || { echo "gofmt -w $$files"; exit 1; }; fi
	@if command -v go >/dev/null; then cd $(GO_CODE) && go vet ./... && go test ./...; fi

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
	rm -rf $(VENV) .venv-clients build dist native/target *.egg-info
