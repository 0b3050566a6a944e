"""The command: `python -m dashboard` serves the results folder as a page on http://127.0.0.1:8050."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path

from machine.program import run_command
from options.command_line import split_words
from options.rules import ADDRESS, PATH, Options, UsageError, declared, matching, option, shown, whole
from reports.sinks import check_port

USAGE = "usage: python -m dashboard [--name=value ...]"


@dataclass(frozen=True, kw_only=True)
class DashboardOptions(Options):
    results_dir: str = option("results", PATH, "Folder with the runs to show.")
    port: int = option(8050, whole(1, 65535), "Port of the page.")
    host: str = option(
        "127.0.0.1", ADDRESS, "Address of the page. 0.0.0.0 opens it to other machines, which then need the token."
    )
    token: str | None = option(
        None,
        matching("[A-Za-z0-9_-]{8,}", "be at least 8 letters, digits, dashes or underscores"),
        "Secret word without which nobody sees the page. Unset: none for this machine alone, else a random one.",
    )


def main(arguments: Sequence[str]) -> None:
    given, others = split_words(arguments, declared(DashboardOptions))
    if others:
        raise UsageError(
            f"{shown(others[0])} belongs to no option; --results_dir={others[0]} would be right for a folder."
        )
    options = DashboardOptions(**given)
    folder = Path(options.results_dir)
    if not folder.is_dir():
        raise UsageError(
            f"--results_dir={folder} is not a folder; a folder with runs, such as results, would be right."
        )
    check_port(options.host, options.port)
    token = options.token
    if token is None and not is_loopback(options.host):
        token = secrets.token_urlsafe(18)
    if find_spec("nicegui") is None:
        raise UsageError("python -m dashboard needs NiceGUI: pip install -r dashboard/requirements.txt would be right.")
    # Imported here: a mistyped option is reported without the time of the import, and the processes of the live agent,
    # which import this file too, need less memory.
    from dashboard.server import serve

    serve(folder, options.host, options.port, token)


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach the address."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


if __name__ == "__main__":
    run_command(main, USAGE, DashboardOptions)
