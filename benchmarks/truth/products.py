"""The products that are given the traces of the corpus: each started on an empty folder, with a
project, an experiment or a key for each scenario, and asked for the totals that it shows.

Other products run from virtual environments of their own in the cache folder, with pinned versions.
"""

import json
import sys
import time
import urllib.error
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.processes import HANGS_S, Process, ProcessFailed, read_json_file
from benchmarks.scenario import fetch
from benchmarks.side_by_side.build import run_command
from benchmarks.truth.truths import Requests, Totals, plain_sum
from tests.support.ports import free_port

T = TypeVar("T")
Measured = dict[str, Totals]
"""Scenario -> the totals that are shown; one that a product does not show is missing."""
_STARTS_S: Final = 180.0
"""Other products import and migrate for up to a minute on a busy machine."""
_STEADY_S: Final = 10.0
"""A total that did not change for so long is final: Phoenix prices spans every few seconds."""
_POLL_S: Final = 1.0
_PROTOBUF: Final = {"Content-Type": "application/x-protobuf"}
_PHOENIX_QUERY: Final = (
    "{projects(first:1000){edges{node{name tokenCountPrompt tokenCountCompletion costSummary{total{cost}}}}}}"
)


class Product(NamedTuple):
    title: str
    package: str | None
    """What is installed for it, with its version; None for what is here already."""
    measure: Callable[[Path, Path, Requests], Measured]
    """Of an empty folder, the folder of its programs, and what to send. Raises ProcessFailed."""


def installed(cache: Path, product: Product) -> Path:
    """The folder of its programs; made where it is not there yet. Raises BuildFailed."""
    if product.package is None:
        return Path(sys.executable).parent
    home = cache / product.package.replace("==", "-")
    mark = home / "installed"
    if not mark.exists():
        run_command([sys.executable, "-m", "venv", "--clear", str(home)])
        run_command([str(home / "bin/python"), "-m", "pip", "install", "--quiet", product.package])
        mark.touch()
    return home / "bin"


def gateway(folder: Path, programs: Path, requests: Requests) -> Measured:
    """Ours as it ships but for `counting.settle: 2s`; a key for each scenario, read by
    `/v2/usage`.
    """
    config, ports_file = folder / "config.yaml", folder / "ports.json"
    listen = {"http": "127.0.0.1:0", "grpc": "off", "admin": "127.0.0.1:0", "service": "127.0.0.1:0"}
    stated = {"data_dir": str(folder / "data"), "listen": listen, "counting": {"settle": "2s"}}
    config.write_text(json.dumps(stated))  # JSON is YAML
    module = ("-m", "gateway.cli.main", "run", "--config", str(config), "--ports-file", str(ports_file))
    process = Process([str(programs / "python"), *module], log=folder / "log")
    try:
        ports = process.wait_until(lambda: read_json_file(ports_file), timeout_s=_STARTS_S, what="ready")
        admin = f"http://127.0.0.1:{ports['admin']}/v2"
        token = {"Authorization": (folder / "data/admin-token").read_text().strip()}
        for name, bodies in requests.items():
            key = _post(f"{admin}/keys", {"name": name, "managed": ["send-ai-telemetry"], "by": "benchmark"}, token)
            _send(f"http://127.0.0.1:{ports['http']}/v1/traces", name, bodies, {"Authorization": key["secret"]})

        def usage() -> Measured:
            asked = f"{admin}/usage?from=2020-01-01&group_by=key&limit=500"
            return {row["key"]: _of_usage(row) for row in json.loads(fetch(asked, headers=token))["usage"]}

        return steady(usage)
    finally:
        process.kill()


def _of_usage(row: Mapping[str, Any]) -> Totals:
    cost = row["costs"].get("USD")
    return Totals(row["input_tokens"] or 0, row["output_tokens"] or 0, None if cost is None else float(cost))


def phoenix(folder: Path, programs: Path, requests: Requests) -> Measured:
    """Arize Phoenix; a project for each scenario, read by GraphQL as its page of projects does."""
    port = free_port()
    env = {
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    }
    base = f"http://127.0.0.1:{port}"
    process = _server([str(programs / "phoenix"), "serve"], folder / "log", env)
    try:
        process.wait_until(lambda: _answers(f"{base}/healthz"), timeout_s=_STARTS_S, what="ready")
        for name, bodies in requests.items():
            _send(f"{base}/v1/traces", name, bodies, {"x-project-name": name})

        def projects() -> Measured:
            edges = _post(f"{base}/graphql", {"query": _PHOENIX_QUERY})["data"]["projects"]["edges"]
            return {edge["node"]["name"]: _of_project(edge["node"]) for edge in edges}

        return steady(projects)
    finally:
        process.terminate()


def _of_project(node: Mapping[str, Any]) -> Totals:
    tokens = round(node["tokenCountPrompt"]), round(node["tokenCountCompletion"])
    return Totals(*tokens, node["costSummary"]["total"]["cost"])


def mlflow(folder: Path, programs: Path, requests: Requests) -> Measured:
    """MLflow's tracking server; an experiment for each scenario, read by its metrics of traces."""
    port = free_port()
    flags = ("--host", "127.0.0.1", "--port", str(port), "--workers", "1")
    stores = ("--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder))
    env = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    base = f"http://127.0.0.1:{port}"
    process = _server([str(programs / "mlflow"), "server", *flags, *stores], folder / "log", env)
    try:
        process.wait_until(lambda: _answers(f"{base}/health"), timeout_s=_STARTS_S, what="ready")
        experiments = {}
        for name, bodies in requests.items():
            experiments[name] = _post(f"{base}/api/2.0/mlflow/experiments/create", {"name": name})["experiment_id"]
            _send(f"{base}/v1/traces", name, bodies, {"x-mlflow-experiment-id": experiments[name]})

        def metrics() -> Measured:
            return {name: _of_experiment(base, experiment) for name, experiment in experiments.items()}

        return steady(metrics)
    finally:
        process.terminate()


def _of_experiment(base: str, experiment: str) -> Totals:
    def summed(view: int, name: str) -> float | None:
        asked: dict[str, Any] = {
            "experiment_ids": [experiment],
            "view_type": view,
            "metric_name": name,
            "max_results": 1000,
        }
        asked["aggregations"] = [{"aggregation_type": "SUM"}]
        answer = _post(f"{base}/api/3.0/mlflow/traces/metrics", asked)
        sums = [point["values"]["SUM"] for point in answer.get("data_points", ())]
        return sum(sums) if sums else None

    of_traces, of_spans = 1, 2
    inputs, outputs = (round(summed(of_traces, name) or 0) for name in ("input_tokens", "output_tokens"))
    return Totals(inputs, outputs, summed(of_spans, "total_cost"))


def naive(folder: Path, programs: Path, requests: Requests) -> Measured:
    """The sum of all token attributes, with no product."""
    return {name: plain_sum(bodies) for name, bodies in requests.items()}


def steady(read: Callable[[], T]) -> T:
    """What *read* gives once it gave the same for `_STEADY_S`. Raises ProcessFailed at
    `HANGS_S`.
    """
    found, began_s = read(), time.monotonic()
    since_s = began_s
    while time.monotonic() - since_s < _STEADY_S:
        time.sleep(_POLL_S)
        again = read()
        if again != found:
            found, since_s = again, time.monotonic()
        if time.monotonic() - began_s > HANGS_S:
            raise ProcessFailed(f"its totals still changed after {HANGS_S} s")
    return found


def _server(command: list[str], log: Path, env: Mapping[str, str]) -> Process:
    """With its standard output in the log: nobody reads the pipe."""
    return Process(["sh", "-c", 'exec "$@" >&2', "sh", *command], log=log, env={**env, "DO_NOT_TRACK": "true"})


def _answers(url: str) -> bool | None:
    with suppress(OSError):
        return bool(fetch(url))
    return None


def _send(url: str, name: str, bodies: Iterable[ExportTraceServiceRequest], headers: Mapping[str, str]) -> None:
    """A refusal is reported and no failure: the product then shows nothing of the scenario."""
    for body in bodies:
        try:
            fetch(url, method="POST", headers={**_PROTOBUF, **headers}, body=body.SerializeToString())
        except urllib.error.HTTPError as error:
            print(f"  {name}: refused with {error.code}: {error.read()[:200]!r}", file=sys.stderr)


def _post(url: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Any:
    asked = {"Content-Type": "application/json", **(headers or {})}
    return json.loads(fetch(url, method="POST", headers=asked, body=json.dumps(body).encode()))


OURS: Final = "gateway"
PRODUCTS: Final[Mapping[str, Product]] = {
    OURS: Product("this gateway", None, gateway),
    "mlflow": Product("MLflow's tracking server", "mlflow==3.17.2", mlflow),
    "phoenix": Product("Arize Phoenix, totals of a project", "arize-phoenix==20.26.1", phoenix),
    "sum": Product("sum of all token attributes", None, naive),
}
