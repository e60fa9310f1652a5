"""The side-by-side benchmark: what its sender sends is what the gateway reads, what its sink counts
is exact, and the pages state what was measured.
"""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.processes import PROJECT_ROOT, Process
from benchmarks.side_by_side import pages
from benchmarks.side_by_side.__main__ import half_loads, in_turn
from benchmarks.side_by_side.build import HERE, Programs, build_peerbench, collector_manifest
from benchmarks.side_by_side.loads import LOADS, Load, write_template
from benchmarks.side_by_side.peers import Sender, running_sink
from benchmarks.side_by_side.plots import Chart, svg
from benchmarks.side_by_side.products import PRODUCTS, collector_config
from benchmarks.side_by_side.report import faults, load_tables
from benchmarks.side_by_side.results import Results, medians
from benchmarks.side_by_side.runs import Bench, Run, run_once
from tests.support.programs import needs_program

needs_go = needs_program("go", get="https://go.dev/dl/")
RUN = Run(
    load="64", product="gateway", reader="python", requests_per_s=10.0, taken_per_s=640.0, delivered_per_s=600.0,
    drain_s=1.0, cpu_us_per_item=45.0, cpu_us_per_request=2880.0, peak_rss_mib=190.0, p50_ms=1.0, p99_ms=2.0,
    p999_ms=3.0, written_per_body_byte=0.5, lost=0, twice=0, not_acked=0, sender_cores=0.1, sink_cores=0.1,
    fdatasync_p50_ms=0.1, fdatasync_p99_ms=0.3, load_average=0.5,
)  # fmt: skip


@pytest.fixture(scope="module")
def peerbench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_peerbench(tmp_path_factory.mktemp("peerbench"))


@needs_go
def test_the_go_code_is_formatted_and_its_own_tests_pass() -> None:
    unformatted = subprocess.run(
        ["gofmt", "-l", "."], cwd=HERE / "peerbench", capture_output=True, text=True, check=True
    )
    assert unformatted.stdout == ""
    for command in (["go", "vet", "./..."], ["go", "test", "./..."]):
        done = subprocess.run(command, cwd=HERE / "peerbench", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@needs_go
def test_the_sink_counts_each_span_that_the_sender_numbers_and_each_repeat(peerbench: Path, tmp_path: Path) -> None:
    template = tmp_path / "template.json"
    assert write_template(Load(64), template) == 64
    with running_sink(peerbench, tmp_path / "sink.log") as sink:
        for sent in (1, 2):
            load = {"connections": 4, "seconds": 60, "requests": 20}
            report = Sender(peerbench, tmp_path / "log", port=sink.port, template=template, **load).go()
            assert (report.acked_items, report.next_number) == (64 * 20, 64 * 20)
            assert report.p50_ms <= report.p99_ms <= report.p999_ms <= report.max_ms
            counts = sink.counts()
            assert (counts.unique, counts.repeats, counts.unknown) == (64 * 20, 64 * 20 * (sent - 1), 0)


@needs_go
def test_a_sender_without_a_template_fails_with_the_reason(peerbench: Path, tmp_path: Path) -> None:
    process = Process([str(peerbench), "load", "-template", str(tmp_path / "none.json")], log=tmp_path / "log")
    assert process.wait(30) == 1
    assert "none.json: no such file" in process.log_tail()


@pytest.mark.slow
@needs_go
@pytest.mark.parametrize(
    "load", [Load(1, connections=8), Load(64, gzip=True), Load(20, kind="litellm"), Load(20, kind="claude_code"), Load(400, kind="metrics")],
    ids=lambda load: load.name,
)  # fmt: skip
def test_every_item_that_the_gateway_acknowledges_is_at_the_sink_once(
    peerbench: Path, tmp_path: Path, load: Load
) -> None:
    run = run_once(PRODUCTS["gateway-python"], load, Bench(Programs(peerbench, None), tmp_path, 0.3, 0.0))
    assert (run.lost, run.twice, run.not_acked) == (0, 0, 0)
    assert run.reader == "python"
    assert run.taken_per_s > 0
    assert run.delivered_per_s > 0
    assert run.cpu_us_per_item > 0
    assert run.peak_rss_mib > 50
    assert list(tmp_path.glob("gateway-python-*")) == []


@pytest.mark.parametrize("load", [each for each in LOADS.values() if each.size <= 100], ids=lambda load: load.name)
def test_each_patch_of_a_template_overwrites_a_placeholder(tmp_path: Path, load: Load) -> None:
    path = tmp_path / "template.json"
    items = write_template(load, path)
    template = json.loads(path.read_bytes())
    assert {item for _, item, _ in template["patches"]} == set(range(items))
    assert len({offset for offset, _, _ in template["patches"]}) == len(template["patches"])


def test_products_run_in_turn() -> None:
    a, b = PRODUCTS["gateway"], PRODUCTS["collector-durable"]
    assert [product.name for product in in_turn([a, b], 3)] == [each.name for each in (a, b, b, a, a, b)]


def test_half_of_what_each_product_took_is_a_load_of_its_own() -> None:
    results = Results(runs=[RUN, replace(RUN, product="collector-durable", requests_per_s=30.0)])
    made = dict(half_loads(results, [LOADS["64"], LOADS["1 open 1000/s"]], ["gateway", "collector-durable"]))
    assert {name: load.rate for name, load in made.items()} == {"gateway": 5.0, "collector-durable": 15.0}


def test_losses_of_all_runs_are_summed_and_named() -> None:
    results = Results(runs=[RUN, replace(RUN, taken_per_s=700.0, lost=1), replace(RUN, taken_per_s=660.0, twice=2)])
    median = medians(results.runs)["64", "gateway"]
    assert (median.runs, median.run.taken_per_s, median.lowest_per_s, median.highest_per_s) == (3, 660.0, 640.0, 700.0)
    assert (median.run.lost, median.run.twice) == (1, 2)
    assert faults(results) == ["gateway, 64: 1 lost, 0 twice", "gateway, 64: 0 lost, 2 twice"]
    assert faults(Results(runs=[replace(RUN, product="collector-memory", reader=None, lost=3)])) == []


def test_a_ratio_is_to_the_durable_collector() -> None:
    table = load_tables(Results(runs=[RUN, replace(RUN, product="collector-durable", reader=None, taken_per_s=320.0)]))
    assert "| gateway (python) | 10 | 640 (640-640) | 2.00 |" in table
    assert "**64 spans a request**" in table


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    results = Results({"cores": 2}, [RUN])
    results.write(tmp_path / "results.json")
    assert Results.read(tmp_path / "results.json") == results
    assert Results.read(tmp_path / "none.json") == Results()


def test_the_collector_is_durable_only_with_storage_and_fsync(tmp_path: Path) -> None:
    durable = collector_config(tmp_path, 1, 2)
    assert durable["extensions"]["file_storage"]["fsync"] is True
    assert durable["exporters"]["otlp_http"]["sending_queue"]["storage"] == "file_storage"
    assert durable["service"]["pipelines"]["traces"]["processors"] == ["memory_limiter"]
    memory = collector_config(tmp_path, 1, 2, storage=False)
    assert memory["service"]["extensions"] == []
    assert "storage" not in memory["exporters"]["otlp_http"]["sending_queue"]
    assert "@" not in collector_manifest(tmp_path).replace("@VERSION@, @PROVIDERS@ and @OUT@", "").split("\n", 1)[1]


def test_a_bar_is_as_long_as_its_value() -> None:
    text = svg(Chart("Rates", ["64"], {("64", "a"): 100.0, ("64", "b & c"): 50.0}, lambda value: f"{value:.0f}"))
    widths = [float(line.split('width="')[1].split('"')[0]) for line in text.splitlines() if 'height="13"' in line]
    assert widths == [620.0, 310.0]
    assert "b &amp; c" in text


@pytest.mark.parametrize("name", pages.PAGES)
def test_the_figures_of_a_page_are_those_of_the_stored_results(name: str) -> None:
    page = (PROJECT_ROOT / name).read_text("utf-8")
    assert "<!-- figures:" in page
    assert pages.with_blocks(page, Results.read(pages.RESULTS)) == page, (
        "python -m benchmarks.side_by_side --loads --write-docs"
    )


def test_the_plots_are_those_of_the_stored_results() -> None:
    for name, text in pages.plots(Results.read(pages.RESULTS)).items():
        assert (PROJECT_ROOT / pages.IMAGES / name).read_text("utf-8") == text
