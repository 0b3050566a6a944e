"""Which sinks a run has: its own files always, and those that were asked for."""

import importlib
from collections.abc import Callable
from pathlib import Path

from option_flags import Config, ReportOptions
from options.rules import UsageError
from reports.curves_sink import CurvesSink
from reports.prometheus_sink import PrometheusSink, check_address
from reports.sinks import OutageProofSink, Sink, SinkList
from run_files.metrics import Episode, EpisodesCsvSink, JsonLinesSink, Report

Announce = Callable[[str], None]


def check_sinks(options: ReportOptions) -> None:
    """Refuse, before anything is started, what is not installed and what cannot be listened at."""
    if options.tensorboard:
        _require("tensorboard", "--tensorboard", "__version__")
    if options.wandb:
        _require("wandb", "--wandb", "init")
    if options.metrics_port:
        check_address(options.metrics_host, options.metrics_port)


def make_sinks(config: Config, folder: Path, announce: Announce) -> Sink:
    """Everything that reports go to. The run's files come first: others look at them."""
    options = config.report
    files = SinkList(JsonLinesSink(folder / "metrics.jsonl"), EpisodesCsvSink(folder / "episodes.csv"))
    extra: list[tuple[str, Callable[[], Sink]]] = []
    if options.curves:
        extra.append(("curves.png", lambda: CurvesSink(folder, announce)))
    if options.metrics_port:
        address = options.metrics_host, options.metrics_port
        extra.append(("--metrics_port", lambda: PrometheusSink(*address, folder.name, config.environment.env)))
    if options.tensorboard:
        from reports.tensorboard_sink import TensorBoardSink

        extra.append(("--tensorboard", lambda: TensorBoardSink(folder, config.flags())))
    if options.wandb:
        from reports.wandb_sink import WandbSink

        extra.append(("--wandb", lambda: WandbSink(folder, options.wandb_project, config.flags())))
    dispensable = [DispensableSink(name, make, announce) for name, make in extra]
    return SinkList(OutageProofSink(files, "metrics and episodes", announce), *dispensable)


class DispensableSink:
    """A sink that a run can do without: where it fails, it says so once and is left alone from then on."""

    def __init__(self, name: str, make: Callable[[], Sink], announce: Announce) -> None:
        self._name = name
        self._announce = announce
        self._sink: Sink = SinkList()
        self._guarded(lambda: self._take(make()))

    def write(self, report: Report) -> None:
        self._guarded(lambda: self._sink.write(report))

    def episode(self, row: Episode) -> None:
        self._guarded(lambda: self._sink.episode(row))

    def close(self) -> None:
        self._guarded(self._sink.close)

    def _take(self, sink: Sink) -> None:
        self._sink = sink

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # packages of others fail in ways of their own, and none is worth a run
            self._sink = SinkList()
            reason = str(error).strip().splitlines()
            self._announce(
                f"{self._name} gets no more reports ({type(error).__name__}{': ' + reason[0] if reason else ''}); "
                "training goes on"
            )


def _require(package: str, flag: str, attribute: str) -> None:
    try:
        # A folder of the package's name can be imported, too, but has nothing of it.
        there = hasattr(importlib.import_module(package), attribute)
    except ImportError:
        there = False
    if not there:
        raise UsageError(f"{flag} needs the package {package}; pip install {package} would be right.")
