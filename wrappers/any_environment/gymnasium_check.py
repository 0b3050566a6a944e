"""Gymnasium's own check of an environment, in a process of its own: an environment may print, crash or hang.

`python -m wrappers.any_environment.gymnasium_check OPTIONS` takes options as JSON, and writes JSON. PassiveEnvChecker
would need no process, but it neither resets with one seed twice, nor survives an environment that hangs.
"""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import gymnasium
from gymnasium.utils.env_checker import check_env

from option_flags import EnvironmentOptions
from options.presets import is_noframeskip
from options.rules import UsageError, printable
from wrappers.any_environment.adapter import ACTION_MASK, ACTION_MASKS
from wrappers.any_environment.creation import closing_quietly, create
from wrappers.any_environment.faults import FAILURES, last_line

CHECK_SECONDS = 60.0
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# What Gymnasium recommends and this platform does itself, or does not need.
WITHOUT_MEANING = (
    "symmetric and normalized space",
    "is -infinity",
    "is infinity",
    "unconventional shape",
    "out of date",
)


def complaints(options: EnvironmentOptions, seconds: float = CHECK_SECONDS) -> list[str]:
    """What Gymnasium's check says about the environment, one sentence each. Nothing of its output is shown."""
    if is_noframeskip(options.env):
        return []
    subject = f"Gymnasium's check of {options.env}"
    module = ["-P", "-m", "wrappers.any_environment.gymnasium_check"]  # -P: modules of the current folder come last
    with subprocess.Popen(
        [sys.executable, *module, json.dumps(dataclasses.asdict(options))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdin=subprocess.PIPE,  # it is closed when this process ends, also by CTRL+C, which does not reach the group
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        process_group=0,
    ) as process:
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return [f"{subject} was ended after {seconds:g} seconds: reset, step or close may hang."]
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # also the programs that the environment has started
        if code:
            return [f"{subject} ended with {_how(code)}: reset, step or close may end the process."]
        assert process.stdout is not None
        return [f"{subject}: {sentence}" for sentence in json.load(process.stdout)]


def check(options: EnvironmentOptions) -> Iterator[str]:
    """Check the environment without wrappers, in this process; yield each complaint."""
    with closing_quietly(create(options)) as environment, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        error = ""
        try:
            if not (options.action_masks and gives_masks(environment)):  # the check plays any actions
                check_env(environment.unwrapped, skip_render_check=True, skip_close_check=True)
        except (Exception, SystemExit) as raised:
            # What the check itself says is an AssertionError or an error of Gymnasium; the rest is the environment's.
            says = isinstance(raised, AssertionError | gymnasium.error.Error) and str(raised)
            error = str(raised) if says else f"the environment raised {last_line(raised)}"
    for text in dict.fromkeys([*(str(warning.message) for warning in warned), error]):
        if text and not any(words in text for words in WITHOUT_MEANING):
            yield _sentence(text)


def gives_masks(environment: gymnasium.Env[Any, Any]) -> bool:
    """Whether the environment gives action masks."""
    if environment.has_wrapper_attr(ACTION_MASKS):
        return True
    with suppress(*FAILURES):  # which the check reports
        return ACTION_MASK in environment.reset(seed=0)[1]
    return False


def _how(code: int) -> str:
    if code > 0:
        return f"code {code}"
    return next((each.name for each in signal.Signals if each == -code), f"signal {-code}")  # some have no name


def _sentence(text: str) -> str:
    words = " ".join(COLOUR.sub("", text).removeprefix("WARN: ").split())
    return printable(words.rstrip(".")) + "."


def _end_with(lifeline: int) -> None:
    """End this process and the programs that the environment has started when the other end is closed."""
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    lifeline, answer = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # the environment may read or print
        os.dup2(nothing, stream)
    threading.Thread(target=_end_with, args=[lifeline], daemon=True).start()
    try:
        sentences = list(check(EnvironmentOptions(**json.loads(sys.argv[1]))))
    except UsageError:
        sentences = []  # it is reported elsewhere
    with open(answer, "w", encoding="utf-8") as file:
        json.dump(sentences, file)
