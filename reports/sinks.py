"""Where the reports of a run go: always to its own files, and by flags to curves.png, TensorBoard and others."""

import importlib.metadata
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from option_flags import Config, ReportOptions
from options.rules import UsageError
from processes.child import Call, start_child
from processes.messages import ChildError, receive
from processes.printed import reason
from run_files.metrics import EPISODES, METRICS, Episode, EpisodesCsvSink, JsonLinesSink, Report, Sink
from run_files.run_folder import remove_abandoned

LAST_DRAWING_SECONDS = 10.0  # longest wait for the last drawing at the end of a run: a busy machine is slow
LOWEST_PRIORITY = 19

Announce = Callable[[str], None]


def check_sinks(options: ReportOptions) -> None:
    """Raise UsageError if a package is not installed or the port cannot be opened; called before anything starts."""
    for package, wanted in (("tensorboard", options.tensorboard), ("wandb", options.wandb)):
        try:
            _ = wanted and importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            raise UsageError(f"--{package} needs the package {package}; run pip install {package}.") from None
    if options.metrics_port:
        check_port(options.metrics_host, options.metrics_port, "metrics_")


def check_port(host: str, port: int, prefix: str = "") -> None:
    """Raise a UsageError if no server can listen there; `prefix` is that of the flags `host` and `port`."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        socket.create_server((host, port), family=family).close()
    except (OSError, UnicodeError) as error:
        reason = str(getattr(error, "strerror", error)).partition(" (while")[0]  # Python adds the address
        raise UsageError(
            f"--{prefix}port={port} of --{prefix}host={host} cannot be opened ({reason}); "
            "choose a free port, and an address of this machine: 127.0.0.1, or 0.0.0.0 for all."
        ) from None


def make_sinks(config: Config, folder: Path, announce: Announce) -> Sink:
    """All sinks of a run. Its files come first, because other sinks read them."""
    options = config.report
    files = SinkList(JsonLinesSink(folder / METRICS), EpisodesCsvSink(folder / EPISODES))
    extra: list[tuple[str, Callable[[], Sink]]] = []
    if options.curves:
        extra.append(("curves.png", lambda: CurvesSink(folder)))
    if options.metrics_port or options.tensorboard or options.wandb:
        from reports import trackers

        if options.metrics_port:
            extra.append(("--metrics_port", lambda: trackers.PrometheusSink(folder, config)))
        if options.tensorboard:
            extra.append(("--tensorboard", lambda: trackers.TensorBoardSink(folder, config)))
        if options.wandb:
            extra.append(("--wandb", lambda: trackers.WandbSink(folder, config)))
    optional = [GuardedSink(name, make, announce) for name, make in extra]
    return SinkList(GuardedSink("metrics and episodes", lambda: files, announce, OSError), *optional)


class SinkList(Sink):
    """Passes everything to each of its sinks in turn."""

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


class GuardedSink(Sink):
    """Wraps a sink so that its `errors` do not end the run. Each report tries it again.

    A failure and the recovery from it are announced once each. Sinks of files keep what they could not write, some
    megabytes a day at most, and write it then.
    """

    def __init__(
        self, name: str, make: Callable[[], Sink], announce: Announce, errors: type[Exception] = Exception
    ) -> None:
        self._name = name
        self._announce = announce
        self._errors = errors
        self._sink = Sink()
        self._failed = False
        with self._guarded():
            self._sink = make()
        self._failed = False  # a sink that could not be made does not recover

    def write(self, report: Report) -> None:
        with self._guarded():
            self._sink.write(report)
            if self._failed:
                self._failed = False
                self._announce(f"{self._name} can be written again")

    def episode(self, row: Episode) -> None:
        with self._guarded():
            self._sink.episode(row)

    def close(self) -> None:
        self._failed = False  # what cannot be written now is lost, so it is announced again
        with self._guarded():
            self._sink.close()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            if not self._failed:
                self._failed = True
                said = str(getattr(error, "strerror", None) or error).strip().splitlines() or [type(error).__name__]
                self._announce(f"{self._name} cannot be written ({said[0]}); training continues")


class CurvesSink(Sink):
    """Has curves.png redrawn by a process of its own: the learner never imports matplotlib."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._drawer = start_child(Call("reports.run_curves", "redraw", (folder.resolve(),)), "curves")
        with suppress(OSError):  # it has ended already; the next report handles that
            os.setpriority(os.PRIO_PROCESS, self._drawer.pid, LOWEST_PRIORITY)

    def write(self, report: Report) -> None:
        """Nothing is sent: the process reads the run's files. Raises RuntimeError if it has failed."""
        if self._drawer.connection.poll():
            try:
                receive(self._drawer.connection)
            except ChildError as error:
                raise RuntimeError(reason(str(error))) from None
            except EOFError:
                raise RuntimeError("the process that draws it was killed") from None

    def close(self) -> None:
        """Wait for the last drawing, at most LAST_DRAWING_SECONDS, so that CTRL+C ends a run soon."""
        self._drawer.end(LAST_DRAWING_SECONDS)
        remove_abandoned(self._folder)
