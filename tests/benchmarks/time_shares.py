"""Where the time of a whole run goes: the shares of the learner's and of the workers' stages, and CPU time per step.

    python -m tests.benchmarks.time_shares [--seconds=20] [any flag of main.py; without any, CartPole's preset]

The shares are of wall-clock time, so other programs distort the waits: read the stages of work relative to each other.
"""

import argparse

from option_flags import OPTIONS
from options.command_line import given_flags
from tests.benchmarks.runs import train

PRESET = "--flagfile=docs/presets/cartpole.flags"


def shown(shares: dict[str, float]) -> str:
    return ", ".join(f"{stage} {share:.1%}" for stage, share in shares.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    own, words = parser.parse_known_args()
    found = train({"environment_max_steps": 10**9, **given_flags(words or [PRESET], OPTIONS)}, own.seconds)
    print(f"{found.steps_per_second:,.0f} steps/s; other programs used {found.others_cores:.1f} cores")
    costs = found.learner_seconds, found.workers_seconds
    print("CPU time per step: learner {:.1f} µs, workers {:.1f} µs".format(*(1e6 * cost for cost in costs)))
    print(f"learner: {shown(found.learner_shares)}")
    print(f"workers: {shown(found.worker_shares)}")


if __name__ == "__main__":
    main()
