"""The files of docs/telemetry: the dashboard is well-formed, and Prometheus answers each of its queries."""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from option_flags import Config
from reports.trackers import PrometheusSink
from run_files.metrics import Report, last_report
from tests.catch import make_catch
from tests.ports import free_ports
from training.train import train

ROOT = Path(__file__).resolve().parents[2]
TELEMETRY = ROOT / "docs" / "telemetry"
DASHBOARD = json.loads((TELEMETRY / "grafana" / "training.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
PROMETHEUS = shutil.which("prometheus")
REQUIRED = os.environ.get("PROMETHEUS_TESTS_REQUIRED") == "1"
needs_prometheus = pytest.mark.skipif(PROMETHEUS is None and not REQUIRED, reason="needs a Prometheus server")


def nodes_at(count: int) -> list[dict[str, Any]]:
    """The figures of two nodes in a report; `count` is the number of the report."""
    return [
        {
            **{"node": name, "alive": True, "workers": 2, "agent_steps": 1000 * count, "steps_per_second": 900.0},
            **{"unrolls_accepted": 50 * count, "unrolls_refused": count, "policy_lag": 4.5, "restarts": 0},
            **{"received_bytes_per_second": 3e5, "sent_bytes_per_second": 2e6, "round_trip_ms": 1.2, "publish_ms": 9.0},
        }
        for name in ("near", "far")
    ]


# --- The files --------------------------------------------------------------------------------------------------------


def loaded(name: str) -> Any:
    return yaml.safe_load((TELEMETRY / name).read_text())


def test_the_dashboard_has_what_grafana_needs() -> None:
    assert DASHBOARD["uid"] and DASHBOARD["title"] and DASHBOARD["schemaVersion"] >= 36
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids) and all(isinstance(number, int) and number > 0 for number in ids)
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place.keys() == {"x", "y", "w", "h"}
        assert place["x"] >= 0 and place["y"] >= 0 and place["w"] > 0 and place["h"] > 0
        assert place["x"] + place["w"] <= 24, panel["title"]
    for panel in PANELS:
        assert panel["title"] and panel["type"] in {"timeseries", "stat"}
        assert panel["targets"], panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)
        assert all(target["expr"] for target in panel["targets"])


def test_no_two_panels_overlap() -> None:
    for one, other in itertools.combinations(DASHBOARD["panels"], 2):
        a, b = one["gridPos"], other["gridPos"]
        apart = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        assert apart or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"], (one["title"], other["title"])


def test_all_panels_use_the_source_that_is_provisioned() -> None:
    (source,) = loaded("grafana/datasource.yml")["datasources"]
    users = [*PANELS, *(target for panel in PANELS for target in panel["targets"]), *DASHBOARD["templating"]["list"]]
    for user in users:
        assert user["datasource"] == {"type": source["type"], "uid": source["uid"]}


def test_the_variables_of_queries_are_declared() -> None:
    declared = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    for query in QUERIES:
        assert set(re.findall(r"\$(\w+)", query)) <= declared | {"__rate_interval"}, query


def test_the_containers_get_the_files_of_this_folder() -> None:
    services = loaded("compose.yml")["services"]
    mounted: dict[str, str] = {}
    for service in services.values():
        for volume in service["volumes"]:
            source, target = volume.split(":")[:2]
            if source.startswith("./"):
                assert (TELEMETRY / source).is_file(), source
                mounted[target] = source
    flags = dict(word.split("=", 1) for word in services["prometheus"]["command"])
    assert mounted[flags["--config.file"]] == "./prometheus.yml"
    (source,) = loaded("grafana/datasource.yml")["datasources"]
    assert source["url"] == f"http://{flags['--web.listen-address']}"
    (provider,) = loaded("grafana/dashboards.yml")["providers"]
    home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert mounted[home] == "./grafana/training.json"
    assert Path(home).parent == Path(provider["options"]["path"])


@pytest.mark.slow
def test_every_metric_of_a_query_is_one_that_a_run_exports(tmp_path: Path) -> None:
    small = {"worker_count": 1, "envs_per_worker": 4, "r_f_steps": 5, "batch_size": 4, "frames_stacked": 1}
    folder = train(
        Config.from_flags(
            {**small, "environment_max_steps": 400, "results_dir": str(tmp_path), "console": "off", "curves": False}
        ),
        make_catch,
    )
    report = last_report(folder / "metrics.jsonl")
    assert report is not None
    (port,) = free_ports(1)
    sink = PrometheusSink(Path("run"), Config.from_flags({"metrics_port": port}))
    sink.write({**report, "nodes": nodes_at(1)})
    exported = {sample.name for metric in sink.collect() for sample in metric.samples}
    sink.close()
    wanted = {name for query in QUERIES for name in re.findall(r"\brl_\w+", query)}
    assert wanted and wanted <= exported, wanted - exported
    for variable in DASHBOARD["templating"]["list"]:
        assert set(re.findall(r"\brl_\w+", variable["definition"])) <= exported


# --- A real server ----------------------------------------------------------------------------------------------------


@contextmanager
def process(words: Sequence[str], last_signal: signal.Signals) -> Iterator["subprocess.Popen[bytes]"]:
    started = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield started
    finally:
        started.send_signal(last_signal)
        try:
            started.wait(60)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def ask(port: int, query: str) -> list[Any]:
    address = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(address, timeout=10) as answer:
        content = json.load(answer)
    assert content["status"] == "success", content
    return [series["value"][1] for series in content["data"]["result"] if series["value"][1] != "NaN"]


def as_grafana_asks(query: str) -> str:
    return query.replace("$instance", ".*").replace("$node", ".*").replace("$__rate_interval", "20s")


@needs_prometheus
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_prometheus_answers_every_query_of_the_dashboard_during_a_run(tmp_path: Path) -> None:
    """The metrics of a training whose games are short, and the figures of nodes through a sink in this process."""
    assert PROMETHEUS is not None, "PROMETHEUS_TESTS_REQUIRED is set, and there is no program named prometheus"
    server, run, nodes = free_ports(3)
    config = loaded("prometheus.yml")
    config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{run}", f"127.0.0.1:{nodes}"]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    database = [f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address=127.0.0.1:{server}"]
    training = ["main.py", "--op_mode=train", f"--results_dir={tmp_path}", f"--metrics_port={run}", "--nocurves"]
    small = ["--worker_count=1", "--envs_per_worker=8", "--learner_threads=1", "--report_period=320", "--console=off"]
    small.append("--env=CartPole-v1")
    with (
        process([PROMETHEUS, f"--config.file={tmp_path / 'prometheus.yml'}", *database], signal.SIGTERM),
        process([sys.executable, *training, *small], signal.SIGINT),
    ):
        sink = PrometheusSink(Path("nodes"), Config.from_flags({"metrics_port": nodes}))
        unanswered = [*map(as_grafana_asks, QUERIES)]
        deadline = time.monotonic() + 200
        for count in itertools.count():
            report: Report = {"nodes": nodes_at(count)}
            sink.write(report)
            try:
                unanswered = [query for query in unanswered if not ask(server, query)]
            except OSError:  # the server is still starting
                assert time.monotonic() < deadline
            if not unanswered or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        sink.close()
    assert unanswered == []


@needs_prometheus
@pytest.mark.slow
def test_prometheus_accepts_its_configuration() -> None:
    promtool = shutil.which("promtool")
    assert promtool is not None
    subprocess.run([promtool, "check", "config", TELEMETRY / "prometheus.yml"], check=True, stdout=subprocess.DEVNULL)
