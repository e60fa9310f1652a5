# The two commands of the README are `make demo` and `make test`. Nothing but Python 3.11+ is needed beforehand;
# where cargo is, the native reader (native/) is built, too.
PYTHON ?= python3
# Most tests wait for processes: on two cores three at a time take half the time of one.
JOBS ?= 3
# Tests write and flush thousands of small databases: in memory that takes a third of the time, where 8 GB are free for it.
TEST_TMP ?= $(shell [ "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 8000000 ] 2>/dev/null && echo /dev/shm)
# Byte code is kept whatever the environment says: a test run starts hundreds of processes, and each would compile again.
export PYTHONDONTWRITEBYTECODE :=
PYTHON_TESTS := tests/e2e/test_canary.py tests/e2e/test_renamed_keys.py $(addprefix tests/unit/pipeline/test_,workers.py ancestors.py stamped.py large_payloads.py)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
INSTALL := $(PIP) install --no-deps --no-build-isolation -e .
READER := $(BIN)/python -c 'from gateway.common.native import READER, WHY_NOT, described; print("reader:", described(READER, WHY_NOT))'
HAS_NATIVE := $(BIN)/python -c 'import gateway._native' 2>/dev/null
NATIVE_CODE := native/Cargo.toml native/Cargo.lock $(shell find native/src -name '*.rs')

.PHONY: demo demo-edges demo-cluster run test quick newest python-test explore check docs dist native-wheels native native-check go-check bench-guard lock clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.run
	$(BIN)/telemetry-gateway demo $(if $(KEEP),--keep)

demo-edges: $(VENV)/.run
	$(BIN)/telemetry-gateway demo --edges 3 $(if $(OUTAGE),--outage $(OUTAGE)) $(if $(KEEP),--keep)

# Needs psycopg, which is an extra and so among the tools of development; it says what else is missing.
demo-cluster: $(VENV)/.dev
	$(BIN)/telemetry-gateway demo --cluster $(if $(KEEP),--keep)

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

# The native reader (docs/install.md) once more, where a failed build is an error; nothing where there is no cargo.
native: $(VENV)/.run
	@if command -v cargo >/dev/null; then TELEMETRY_GATEWAY_BUILD=native $(INSTALL); \
	else echo "no native reader: cargo is not installed. Everything works without it."; fi

native-check: $(VENV)/.dev
	@if command -v cargo >/dev/null; then cd native && cargo fmt --check && cargo clippy --quiet --release --locked -- -D warnings; fi

# Whether a hot path became markedly slower than the committed ratio to a reference loop, without the native extension and, where
# it is installed, with it. `$(BIN)/python -m benchmarks.guard --update` writes the ratios.
bench-guard: $(VENV)/.dev
	TELEMETRY_GATEWAY_READER=python $(BIN)/python -m benchmarks.guard
	@if $(HAS_NATIVE); then TELEMETRY_GATEWAY_READER=native $(BIN)/python -m benchmarks.guard; fi

# The sender and sink of the side-by-side benchmark; nothing where there is no Go.
GO_CODE := benchmarks/side_by_side/peerbench
go-check:
	@if command -v gofmt >/dev/null; then files=$$(gofmt -l $(GO_CODE)); [ -z "$$files" ] || { echo "gofmt -w $$files"; exit 1; }; fi
	@if command -v go >/dev/null; then cd $(GO_CODE) && go vet ./... && go test ./...; fi

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# The libraries are installed while cargo compiles.
$(VENV)/.run: $(VENV)/bin/python requirements-build.lock requirements.lock pyproject.toml setup.py $(NATIVE_CODE)
	$(PIP) install --require-hashes -r requirements-build.lock
	@if command -v cargo >/dev/null; then echo "compiling the native reader, up to a minute (TELEMETRY_GATEWAY_BUILD=python leaves it out)"; fi
	$(INSTALL) & $(PIP) install --require-hashes -r requirements.lock; libraries=$$?; wait $$! && exit $$libraries
	@$(READER)
	@if command -v cargo >/dev/null && ! $(HAS_NATIVE); then echo '`make native` shows why the native reader was not built'; fi
	touch $@

$(VENV)/.dev: $(VENV)/.run requirements-dev.lock
	$(PIP) install --require-hashes -r requirements-dev.lock
	touch $@

# The sdist and the wheels, in dist/: one for any platform, without the native reader, and where rustup is, those that have it.
BUILD := $(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist
dist: $(VENV)/.dev
	rm -rf dist build
	$(BUILD) --sdist
	TELEMETRY_GATEWAY_BUILD=python $(BUILD) --wheel
	@if command -v rustup >/dev/null; then $(MAKE) native-wheels; \
	else echo "no wheels with the native reader: rustup is not installed (https://rustup.rs)"; fi
	rm -rf build *.egg-info

# Rust's targets and the platforms of their wheels: glibc from 2.17, musl from 1.2, macOS from 11. Zig links them all.
WHEELS ?= \
  x86_64-unknown-linux-gnu.2.17=manylinux2014_x86_64 aarch64-unknown-linux-gnu.2.17=manylinux2014_aarch64 \
  x86_64-unknown-linux-musl=musllinux_1_2_x86_64 aarch64-unknown-linux-musl=musllinux_1_2_aarch64 \
  x86_64-apple-darwin=macosx_11_0_x86_64 aarch64-apple-darwin=macosx_11_0_arm64
DYNAMIC_MUSL := CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS=-Ctarget-feature=-crt-static \
  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS=-Ctarget-feature=-crt-static
native-wheels: $(VENV)/.dev
	$(PIP) install --require-hashes -r requirements-wheels.lock
	for wheel in $(WHEELS); do \
	  target=$${wheel%%=*} && rustup target add "$${target%.2.17}" && PATH="$(CURDIR)/$(BIN):$$PATH" $(DYNAMIC_MUSL) \
	    MACOSX_DEPLOYMENT_TARGET=11.0 CARGO=cargo-zigbuild CARGO_BUILD_TARGET=$$target TELEMETRY_GATEWAY_BUILD=native \
	    $(BUILD) --wheel --config-setting=--build-option=--plat-name=$${wheel#*=} || exit 1; \
	done

# Newer versions of everything, written to the lock files.
lock: $(VENV)/bin/python
	$(PIP) install uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-emit-index-url --no-header --extra demo --extra oidc --extra postgres -o requirements.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-emit-index-url --no-header --extra demo --group build --group dev -o requirements-dev.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-emit-index-url --no-header --group build -o requirements-build.lock
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --no-emit-index-url --no-header --group wheels -o requirements-wheels.lock

clean:
	rm -rf $(VENV) .venv-clients build dist native/target gateway/_native.* *.egg-info
