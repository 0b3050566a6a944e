"""Where the reports of a run go: always to its own files, and by flags to curves.png, TensorBoard and others."""

import importlib.metadata
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from machine.program import CHECKOUT
from option_flags import Config, ReportOptions
from options.presets import is_noframeskip
from options.rules import UsageError
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
    files = SinkList(
        JsonLinesSink(folder / METRICS),
        EpisodesCsvSink(folder / EPISODES, says_more=not is_noframeskip(config.environment.env)),
    )
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
    """Has curves.png redrawn by a process of its own: the learner never imports matplotlib.

    It is `python -m reports.run_curves`, which looks for new reports until its standard input is closed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", "reports.run_curves", str(folder.resolve())],
            cwd=CHECKOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,  # kept for the announcement; it would disturb the live display
            start_new_session=True,  # CTRL+C goes to the learner only, which then has the last drawing made
        )
        with suppress(OSError):  # it has exited already; the next report handles that
            os.setpriority(os.PRIO_PROCESS, self._process.pid, LOWEST_PRIORITY)

    def write(self, report: Report) -> None:
        """Nothing is sent: the process reads the run's files. Raises RuntimeError if it has ended."""
        if self._process.poll() is not None:
            errors = self._process.communicate()[1].decode(errors="replace").strip().splitlines()
            raise RuntimeError(errors[-1] if errors else f"exit code {self._process.returncode}")

    def close(self) -> None:
        """Wait for the last drawing, at most LAST_DRAWING_SECONDS, so that CTRL+C ends a run soon."""
        try:
            self._process.communicate(timeout=LAST_DRAWING_SECONDS)  # closes its standard input
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            remove_abandoned(self._folder)
