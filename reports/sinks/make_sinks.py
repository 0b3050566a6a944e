"""Makes the sinks of a run: always its own files, and others by flags."""

import importlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from option_flags import Config, ReportOptions
from options.rules import UsageError
from reports.sinks.curves_sink import CurvesSink
from reports.sinks.prometheus_sink import PrometheusSink, check_address
from reports.sinks.sink import RetryingSink, Sink, SinkList
from run_files.metrics import EPISODES, METRICS, Episode, EpisodesCsvSink, JsonLinesSink, Report

Announce = Callable[[str], None]


def check_sinks(options: ReportOptions) -> None:
    """Raise UsageError if a package is not installed or the port cannot be opened; called before anything starts."""
    if options.tensorboard:
        _require("tensorboard", "--tensorboard", "__version__")
    if options.wandb:
        _require("wandb", "--wandb", "init")
    if options.metrics_port:
        check_address(options.metrics_host, options.metrics_port)


def make_sinks(config: Config, folder: Path, announce: Announce) -> Sink:
    """All sinks of a run. Its files come first, because other sinks read them."""
    options = config.report
    files = SinkList(JsonLinesSink(folder / METRICS), EpisodesCsvSink(folder / EPISODES))
    extra: list[tuple[str, Callable[[], Sink]]] = []
    if options.curves:
        extra.append(("curves.png", lambda: CurvesSink(folder, announce)))
    if options.metrics_port:
        address = options.metrics_host, options.metrics_port
        extra.append(("--metrics_port", lambda: PrometheusSink(*address, folder.name, config.environment.env)))
    if options.tensorboard:
        from reports.sinks.tensorboard_sink import TensorBoardSink

        extra.append(("--tensorboard", lambda: TensorBoardSink(folder, config.flags())))
    if options.wandb:
        from reports.sinks.wandb_sink import WandbSink

        extra.append(("--wandb", lambda: WandbSink(folder, options.wandb_project, config.flags())))
    optional = [OptionalSink(name, make, announce) for name, make in extra]
    return SinkList(RetryingSink(files, "metrics and episodes", announce), *optional)


class OptionalSink:
    """Wraps a sink that a run does not need: at its first failure, which is announced, it is closed."""

    def __init__(self, name: str, make: Callable[[], Sink], announce: Announce) -> None:
        self._name = name
        self._announce = announce
        self._sink: Sink = SinkList()
        self._guarded(lambda: self._use(make()))

    def write(self, report: Report) -> None:
        self._guarded(lambda: self._sink.write(report))

    def episode(self, row: Episode) -> None:
        self._guarded(lambda: self._sink.episode(row))

    def close(self) -> None:
        sink, self._sink = self._sink, SinkList()
        self._guarded(sink.close)

    def _use(self, sink: Sink) -> None:
        self._sink = sink

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception as error:  # third-party packages raise all kinds of errors, and none may end a run
            failed, self._sink = self._sink, SinkList()
            with suppress(Exception):  # its processes and threads must not outlive it; what it says now is no news
                failed.close()
            reason = str(error).strip().splitlines()
            self._announce(
                f"{self._name} gets no more reports ({type(error).__name__}{': ' + reason[0] if reason else ''}); "
                "training continues"
            )


def _require(package: str, flag: str, attribute: str) -> None:
    try:
        # A folder of the same name can be imported too, but lacks the attribute.
        installed = hasattr(importlib.import_module(package), attribute)
    except ImportError:
        installed = False
    if not installed:
        raise UsageError(f"{flag} needs the package {package}; run pip install {package}.")
