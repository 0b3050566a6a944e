"""Commands to a run, from any machine of its cluster: `python -m cluster.command save|stop|status [--run=<folder>]`."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.check import check_cluster
from machine.program import explained
from options.command_line import split_words
from options.rules import CLUSTER, Options, Rule, UsageError, declared, option

USAGE = """\
usage: python -m cluster.command save|stop|status [--name=value ...]

  save     the run writes a checkpoint now
  stop     the run saves and ends, as after CTRL+C
  status   how far the run is, and what each node does"""
COMMANDS = ("save", "stop", "status")


@dataclass(frozen=True, kw_only=True)
class CommandOptions(Options):
    topic = "Commands to a run"

    run: str = option(
        "newest", Rule(str, "be the name of a run's folder", bool), "Name of the run's folder. newest: begun last."
    )
    address: str = option(
        "auto",
        CLUSTER,
        "The head's host:port. auto: the cluster that this machine belongs to.",
    )


def main(arguments: Sequence[str]) -> int:
    """Give the command, wait until the run has read it, and print a few lines; returns the exit code."""
    return explained(lambda: _command(arguments), USAGE, (CommandOptions,), "cluster.command")


def _command(arguments: Sequence[str]) -> None:
    command, options = _read_words(arguments)
    found = check_cluster(options.address, "--address")
    _connect(found)
    _obey(command, options)


def _obey(command: str, options: CommandOptions) -> None:
    from ray.exceptions import RayError

    from cluster import run_state

    try:
        boards = run_state.boards()
        runs = run_state.states(boards)
        name = _chosen(options.run, runs)
        if command == "status":
            print("\n".join(_status_lines(name, runs)))
        elif run_state.give_command(boards[name], command):
            print(f"{name} {'saves a checkpoint' if command == 'save' else 'saves and ends'} now")
        else:
            raise UsageError(
                f"{name} has not read the command within {run_state.ANSWER_SECONDS:g} seconds, and it is taken back; "
                "python -m cluster.command status shows whether the run is alive."
            )
    except RayError as error:
        raise UsageError(
            f"the cluster at --address={options.address} does not answer any more ({type(error).__name__}); "
            "the same command again would be right when its head is back."
        ) from None


def _read_words(arguments: Sequence[str]) -> tuple[str, CommandOptions]:
    """The command, and its options."""
    given, words = split_words(arguments, declared(CommandOptions))
    if len(words) != 1 or words[0] not in COMMANDS:
        raise UsageError(f"one of {', '.join(COMMANDS)} is needed, not {' '.join(words) or 'nothing'}.")
    return words[0], CommandOptions(**given)


def _connect(address: str) -> None:
    from cluster.find_cluster import connect

    try:
        connect(address)
    except ConnectionError as error:  # the cluster has changed since the check
        raise UsageError(f"--address={address} cannot be used: {error}") from None


def _chosen(run: str, runs: Mapping[str, Mapping[str, Any]]) -> str:
    if not runs:
        raise UsageError("no run of this cluster is alive; one that was started with --cluster=auto would be.")
    if run == "newest":
        return max(runs, key=lambda name: float(runs[name]["begun"]))
    if run not in runs:
        raise UsageError(f"--run={run} is not alive in this cluster; {' or '.join(sorted(runs))} would be right.")
    return run


def _status_lines(name: str, runs: Mapping[str, Mapping[str, Any]]) -> list[str]:
    entry = runs[name]
    lines = [name, *(f"  {line}" for line in (entry["line"], *entry["details"]))]
    others = [other for other in sorted(runs) if other != name]
    return lines + ([f"also alive: {', '.join(others)}"] if others else [])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
