"""Where the reports of a run go: always to its own files, and by flags to curves.png, TensorBoard and others."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from option_flags import Config, ReportOptions
from options.rules import UsageError
from reports.curves_sink import CurvesSink
from reports.prometheus_sink import PrometheusSink, check_address
from run_files.metrics import EPISODES, METRICS, Episode, EpisodesCsvSink, JsonLinesSink, Report

Announce = Callable[[str], None]


class Sink(Protocol):
    """Receives the reports and episodes of a run."""

    def write(self, report: Report) -> None: ...

    def episode(self, row: Episode) -> None: ...

    def close(self) -> None: ...


def check_sinks(options: ReportOptions) -> None:
    """Raise UsageError if a package is not installed or the port cannot be opened; called before anything starts."""
    if options.tensorboard:
        _require("tensorboard", "__version__")
    if options.wandb:
        _require("wandb", "init")
    if options.metrics_port:
        check_address(options.metrics_host, options.metrics_port)


def _require(package: str, attribute: str) -> None:
    try:
        # A folder of the same name can be imported too, but lacks the attribute.
        installed = hasattr(importlib.import_module(package), attribute)
    except ImportError:
        installed = False
    if not installed:
        raise UsageError(f"--{package} needs the package {package}; run pip install {package}.")


def make_sinks(config: Config, folder: Path, announce: Announce) -> Sink:
    """All sinks of a run. Its files come first, because other sinks read them."""
    options = config.report
    files = SinkList(JsonLinesSink(folder / METRICS), EpisodesCsvSink(folder / EPISODES))
    extra: list[tuple[str, Callable[[], Sink]]] = []
    if options.curves:
        extra.append(("curves.png", lambda: CurvesSink(folder)))
    if options.metrics_port:
        address = options.metrics_host, options.metrics_port
        extra.append(("--metrics_port", lambda: PrometheusSink(*address, folder.name, config.environment.env)))
    if options.tensorboard:
        from reports.trackers import TensorBoardSink

        extra.append(("--tensorboard", lambda: TensorBoardSink(folder, config.flags())))
    if options.wandb:
        from reports.trackers import WandbSink

        extra.append(("--wandb", lambda: WandbSink(folder, options.wandb_project, config.flags())))
    optional = [OptionalSink(name, make, announce) for name, make in extra]
    return SinkList(RetryingSink(files, "metrics and episodes", announce), *optional)


class SinkList:
    """Passes everything to each of its sinks in turn. Without sinks it does nothing."""

    def __init__(self, *sinks: Sink) -> None:
        self._sinks = sinks

    def write(self, report: Report) -> None:
        for sink in self._sinks:
            sink.write(report)

    def episode(self, row: Episode) -> None:
        for sink in self._sinks:
            sink.episode(row)

    def close(self) -> None:
        """Close all sinks, even if closing one of them fails."""
        with ExitStack() as stack:
            for sink in reversed(self._sinks):
                stack.callback(sink.close)


class OptionalSink:
    """Wraps a sink that a run does not need: at its first failure, which is announced, it is closed."""

    def __init__(self, name: str, make: Callable[[], Sink], announce: Announce) -> None:
        self._name = name
        self._announce = announce
        self._sink: Sink = SinkList()
        with self._guarded():
            self._sink = make()

    def write(self, report: Report) -> None:
        with self._guarded():
            self._sink.write(report)

    def episode(self, row: Episode) -> None:
        with self._guarded():
            self._sink.episode(row)

    def close(self) -> None:
        sink, self._sink = self._sink, SinkList()
        with self._guarded():
            sink.close()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # third-party packages raise all kinds of errors, and none may end a run
            with suppress(Exception):  # its processes and threads must not outlive it; what it says now is no news
                self._sink.close()
            self._sink = SinkList()
            reason = str(error).strip().splitlines()
            self._announce(
                f"{self._name} gets no more reports ({type(error).__name__}{': ' + reason[0] if reason else ''}); "
                "training continues"
            )


class RetryingSink:
    """Wraps a sink that writes files, so that a full disk does not end the run.

    The wrapped sink keeps what it could not write (some megabytes a day at most) and tries again at the next report.
    The first failure and the recovery are announced once each.
    """

    def __init__(self, sink: Sink, what: str, announce: Announce) -> None:
        self._sink = sink
        self._what = what  # a name in the plural, for messages
        self._announce = announce
        self._outage = False

    def write(self, report: Report) -> None:
        with self._announced("they are kept in memory, and training continues"):
            self._sink.write(report)
            if self._outage:  # everything kept is written now
                self._outage = False
                self._announce(f"{self._what} can be written again; nothing is missing")

    def episode(self, row: Episode) -> None:
        with self._announced("they are kept in memory, and training continues"):
            self._sink.episode(row)

    def close(self) -> None:
        self._outage = False  # what cannot be written now is lost, so it is announced again
        with self._announced("the newest ones are lost"):
            self._sink.close()

    @contextmanager
    def _announced(self, consequence: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not self._outage:
                self._outage = True
                self._announce(f"{self._what} cannot be written ({error.strerror}); {consequence}")
