"""The newest report at http://<host>:<port>/metrics, in the text format that Prometheus reads."""

import errno
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from options.rules import UsageError
from run_files.metrics import Episode, Report, flat_numbers

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "rl_"


class PrometheusSink:
    """Answers from a thread of its own, so that nobody who asks can hold the run up."""

    def __init__(self, host: str, port: int, run: str, env: str) -> None:
        self._about = f'{PREFIX}run_info{{run="{_escaped(run)}",env="{_escaped(env)}"}} 1\n'
        self._server = _Server(host, port)
        self._server.text = self._about
        serve = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True)
        serve.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def write(self, report: Report) -> None:
        self._server.text = self._about + as_text(report)

    def episode(self, row: Episode) -> None:
        pass

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def check_address(host: str, port: int) -> None:
    """Raise UsageError where nothing can listen there."""
    try:
        _Server(host, port).server_close()
    except (OSError, UnicodeError) as error:
        if isinstance(error, OSError) and not isinstance(error, socket.gaierror) and error.errno != errno.EADDRNOTAVAIL:
            raise UsageError(
                f"--metrics_port={port} at --metrics_host={host} cannot be opened ({error.strerror}); "
                "a port that is free would be right."
            ) from None
        raise UsageError(
            f"--metrics_host={host} is no address of this machine; 127.0.0.1, or 0.0.0.0 for all, would be right."
        ) from None


def as_text(report: Report) -> str:
    """One gauge for each number: `time_shares/update` is `rl_time_shares_update`."""
    named = {PREFIX + re.sub("[^a-zA-Z0-9_]", "_", name): value for name, value in flat_numbers(report).items()}
    return "".join(f"# TYPE {name} gauge\n{name} {value!r}\n" for name, value in named.items())


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # whoever keeps a connection open must not hold the run's end

    def __init__(self, host: str, port: int) -> None:
        self.text = ""
        self.address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        super().__init__((host, port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever asked has gone away: no news for the console."""


class _Handler(BaseHTTPRequestHandler):
    timeout = 10

    def do_GET(self) -> None:
        found = self.path.partition("?")[0] in {"/metrics", "/"}
        assert isinstance(self.server, _Server)
        body = (self.server.text if found else "metrics are at /metrics\n").encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", CONTENT_TYPE if found else "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Not on the console."""
