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
ANSWERS = {"save": "saves a checkpoint now", "stop": "saves and ends now"}
COMMANDS = (*ANSWERS, "status")


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
    """Give the command, and print a few lines; returns the exit code."""
    return explained(lambda: _command(arguments), USAGE, (CommandOptions,), "cluster.command")


def _command(arguments: Sequence[str]) -> None:
    given, words = split_words(arguments, declared(CommandOptions))
    if len(words) != 1 or words[0] not in COMMANDS:
        raise UsageError(f"one of {', '.join(COMMANDS)} is needed, not {' '.join(words) or 'nothing'}.")
    options = CommandOptions(**given)
    address = check_cluster(options.address, "--address")
    _obey(words[0], options.run, address)


def _obey(command: str, run: str, address: str) -> None:
    import ray
    from ray.exceptions import RayError

    from cluster.nodes import connect
    from cluster.run_state import ANSWER_SECONDS, running

    try:
        connect(address)
        runs = running()
        name = _chosen(run, {name: state for name, (_, state) in runs.items()})
        board, state = runs[name]
        if command == "status":
            others = sorted(runs.keys() - {name})
            lines = [name, *(f"  {line}" for line in (state["line"], *state["details"]))]
            print("\n".join(lines + ([f"also alive: {', '.join(others)}"] if others else [])))
        else:
            ray.get(board.give.remote(command), timeout=ANSWER_SECONDS)
            print(f"{name} {ANSWERS[command]}")
    except (ConnectionError, RayError) as error:
        raise UsageError(
            f"the cluster at {address} does not answer any more ({type(error).__name__}); "
            "the same command again would be right when its head is back."
        ) from None


def _chosen(run: str, states: Mapping[str, Mapping[str, Any]]) -> str:
    if not states:
        raise UsageError("no run of this cluster is alive; one that was started with --cluster=auto would be.")
    if run == "newest":
        return max(states, key=lambda name: float(states[name]["begun"]))
    if run not in states:
        raise UsageError(f"--run={run} is not alive in this cluster; {' or '.join(sorted(states))} would be right.")
    return run


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
