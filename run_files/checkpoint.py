"""Checkpoints: their names, how they are written, found, read and checked, and what a run takes over from one."""

import os
import pickle
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from option_flags import Config, EnvironmentOptions, NetworkOptions, RealtimeOptions, preset
from options.presets import PRESETS
from options.rules import UsageError, declared, shown
from options.run_options import Goal, RunOptions
from run_files.run_folder import (
    BEST,
    CHECKPOINTS,
    CONFIG,
    newest_first,
    numbered_checkpoints,
    remove_abandoned,
    temporary_beside,
    write_atomically,
)

FORMAT_VERSION = 11  # a new one for each change of what is saved, or of what it means
BEST_EVAL = "best_eval.pt"

FOREIGN = "has contents that no run writes"
DAMAGED = "is cut off, damaged, or not a checkpoint of this program"
FOLDER_BIT = 0x10  # the DOS attribute of a zip entry that marks a folder
# What loading raises for contents that no run writes. SystemError is that of ALE for the state of another game.
CONTENT_ERRORS = (LookupError, TypeError, ValueError, AttributeError, RuntimeError, ArithmeticError, SystemError)

# Flags that the weights depend on, except for those of the policy head.
PICTURE_FLAGS = ("frames_stacked", "grayscaling_frames", "frame_scale_resolution")
NETWORK_FLAGS = (*(name for name in declared(NetworkOptions) if name != "feature_out_layer_size"), *PICTURE_FLAGS)
ENVIRONMENT_FLAGS = ("env", "env_kwargs", "env_wrapper", "largest_pixel")
# Flags that the network and the unrolls depend on: a resumed run or a test cannot change them.
FIXED_FLAGS = ("env", *NETWORK_FLAGS, "full_action_space", "largest_pixel")
# What the policy is and what it observes.
POLICY_OPTIONS = ("precision", *declared(EnvironmentOptions, RealtimeOptions, NetworkOptions))
# Flags that a resumed run does not inherit from its parent.
OWN_FLAGS = ("op_mode", "load_model_url", "load_weights_only")


@dataclass(frozen=True)
class Checkpoint:
    path: Path
    content: dict[str, Any]

    @cached_property
    def config(self) -> Config:
        """The configuration that a resumed run inherits. A goal that was reached is not part of it."""
        options = {name: value for name, value in self.content["options"].items() if name not in OWN_FLAGS}
        no_goal = {} if self.reached_goal is None else {"stop_at_return": None, "stop_at": None}
        return Config.from_flags({**options, **no_goal})

    @cached_property
    def options(self) -> dict[str, Any]:
        """The same as flags."""
        return {name: value for name, value in self.config.flags().items() if name not in OWN_FLAGS}

    @property
    def played_options(self) -> dict[str, Any]:
        """The flags that a test inherits: those of the policy and its observations, but not max_game_frames."""
        taken = set(POLICY_OPTIONS) - {"max_game_frames"}
        return {name: value for name, value in self.options.items() if name in taken}

    @property
    def reached_goal(self) -> Goal | None:
        """The goal of the run, if it has ended at it."""
        options = self.content["options"]
        goal = RunOptions(stop_at_return=options.get("stop_at_return"), stop_at=options.get("stop_at")).goal
        return goal if self.ended_at(goal) else None

    def ended_at(self, goal: Goal | None) -> bool:
        """Whether the run ended at this goal, or a higher one; games that ended since may have lowered the mean."""
        reached = self.content["progress"]["reached_goal"]
        if goal is None or reached is None:
            return False
        name, value = reached
        return bool(name == goal.name and value >= goal.value)

    @property
    def run_folder(self) -> Path:
        """The folder of the run that wrote the checkpoint; the checkpoint's own folder if it lies outside a run."""
        return self.path.parent.parent if self.path.parent.name == CHECKPOINTS else self.path.parent

    @property
    def agent_steps(self) -> int:
        return int(self.content["progress"]["agent_steps"])

    @property
    def updates(self) -> int:
        return int(self.content["progress"]["updates"])

    @property
    def replay_path(self) -> Path:
        return self.path.parent / replay_name(self.updates)


def checkpoint_name(updates: int) -> str:
    return f"checkpoint_{updates:010d}.pt"


def replay_name(updates: int) -> str:
    return f"replays_{updates:010d}.bin"


def write_checkpoint(path: Path, content: Mapping[str, Any]) -> None:
    """Write `content` atomically: tensors and plain values of Python, which can be read without executing code."""
    # Saved to memory first: on a full disk, torch.save raises its own error about file positions, not an OSError.
    buffer = BytesIO()
    torch.save({"format_version": FORMAT_VERSION, **content}, buffer)
    write_atomically(path, lambda file: file.write(buffer.getbuffer()))


def find_checkpoint(url: str) -> Checkpoint:
    """Read the checkpoint that `--load_model_url` names: a file, or the newest one of a checkpoint or run folder."""
    place, wanted = Path(url), "a run folder or a checkpoint would be right."
    try:
        if place.is_dir():
            folder = place / CHECKPOINTS if (place / CHECKPOINTS).is_dir() else place
            next(folder.iterdir(), None)  # raises OSError; glob would return nothing for an unreadable folder
            found = newest_first(folder)
            if not found and any((run / CONFIG).exists() for run in (place, place.parent)):
                raise UsageError(
                    f"--load_model_url={url} is a run that has not saved anything yet; while it trains, kill -USR1 "
                    "makes it save."
                )
            if not found:
                raise UsageError(f"--load_model_url={url} holds no checkpoint; {wanted}")
            place = found[0]
        elif not place.exists():
            raise UsageError(f"--load_model_url={url} does not exist; {wanted}")
    except OSError as error:
        raise UsageError(f"--load_model_url={url} cannot be read ({error.strerror}); {wanted}") from None
    if place.parent == Path():  # relative to its own folder, whose name `run_folder` needs
        place = place.absolute()
    try:
        return read_checkpoint(place)
    except InvalidCheckpointError as error:
        raise UsageError(f"--load_model_url: {place} {error}{_intact_beside(place)}.") from None


def _intact_beside(path: Path) -> str:
    """The end of a sentence: the newest checkpoint beside a damaged one that can be used."""
    for other in newest_first(path.parent):
        with suppress(InvalidCheckpointError):
            read_checkpoint(other)
            return f"; --load_model_url={other}, beside it, would be right"
    return ""


@contextmanager
def refusing_foreign_content(checkpoint: Checkpoint | None) -> Iterator[None]:
    """Turn what the block raises while it loads a checkpoint, if there is one, into a UsageError that names it."""
    try:
        yield
    except CONTENT_ERRORS as error:
        if checkpoint is None:
            raise
        raise UsageError(f"--load_model_url: {checkpoint.path} {FOREIGN} ({in_one_line(error)}).") from None


def in_one_line(error: BaseException) -> str:
    """What went wrong, short enough for a sentence: torch lists every weight."""
    named = str(error).removesuffix(".") if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
    text = " ".join(named.split())
    return f"{text[:200]}…" if len(text) > 200 else text


class InvalidCheckpointError(Exception):
    """A file cannot be used as a checkpoint. The message is the rest of a sentence that begins with the file's name."""


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint. Raises InvalidCheckpointError if it is damaged, foreign or of another format.

    Its checksums, its format and its options are checked. Weights, counters and games are checked by loading them.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidCheckpointError(f"cannot be read ({error.strerror})") from None
    try:
        if not _is_intact_zip(data):  # torch.load accepts other formats, and checks no checksums
            raise InvalidCheckpointError(DAMAGED)
        content = torch.load(BytesIO(data), map_location="cpu", weights_only=True)
    except (*CONTENT_ERRORS, EOFError, pickle.UnpicklingError):
        raise InvalidCheckpointError(DAMAGED) from None
    if not isinstance(content, dict) or not {"format_version", "options"} <= set(content):
        raise InvalidCheckpointError("is not a checkpoint of this program")
    found = content["format_version"]
    if type(found) is not int or found != FORMAT_VERSION:
        raise InvalidCheckpointError(
            f"has the format {shown(found)}, but this version reads format {FORMAT_VERSION} only"
        )
    checkpoint = Checkpoint(path, content)
    try:
        _ = checkpoint.agent_steps, checkpoint.updates, checkpoint.options
    except (*CONTENT_ERRORS, UsageError) as error:  # its options follow the same rules as a command line
        raise InvalidCheckpointError(f"{FOREIGN} ({in_one_line(error)})") from None
    return checkpoint


def inherited_options(checkpoint: Checkpoint, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a command line's checkpoint; `given` are those on the command line itself.

    Raises UsageError if they cannot go together, before one is blamed that nobody has typed.
    """
    saved, env = checkpoint.options, given.get("env")
    if given.get("load_weights_only"):
        of_environment = () if "env" in given else ENVIRONMENT_FLAGS
        return {name: saved[name] for name in (*NETWORK_FLAGS, "feature_out_layer_size", *of_environment)}
    if env not in (None, saved["env"]):
        raise does_not_fit(f"--env={env}", saved["env"], given["op_mode"])
    if any(given.get(name) is not None for name in ("stop_at", "stop_at_return")):  # a run has one such end
        saved = {**saved, "stop_at": None, "stop_at_return": None}
    return checkpoint.played_options if given["op_mode"] == "test" else saved


def check_playable(config: Config, checkpoint: Checkpoint) -> None:
    """Refuse flags that do not fit the checkpoint's network."""
    chosen, options = config.flags(), checkpoint.options
    for name in NETWORK_FLAGS if config.run.load_weights_only else FIXED_FLAGS:
        saved = options[name]
        if chosen[name] != saved:
            flag = f"--{name}={chosen[name]}"
            for option in (each for each in PRESETS if chosen[each] != options[each]):
                if preset(option, chosen[option]).get(name, saved) == chosen[name]:
                    flag = f"--{option}={chosen[option]} with its --{name}={chosen[name]}"
            raise does_not_fit(flag, saved, config.run.op_mode)


def does_not_fit(flag: str, saved: object, mode: str) -> UsageError:
    """The error for a flag with another value than the checkpoint's."""
    instead = "" if mode == "test" else ", or start a new run with --op_mode=train"
    return UsageError(f"{flag} does not fit a checkpoint with {saved}; leave the flag out{instead}.")


def check_resumable(config: Config, checkpoint: Checkpoint) -> None:
    """Refuse flags that do not fit the checkpoint's network, and a run that is already complete."""
    check_playable(config, checkpoint)
    complete = why_complete(config, checkpoint)
    if complete is not None:
        raise UsageError(complete)


def why_complete(config: Config, checkpoint: Checkpoint) -> str | None:
    """A sentence about the flag whose end the checkpoint has reached. None if the run can go on."""
    steps, goal = config.run.environment_max_steps, config.run.goal
    if checkpoint.agent_steps >= steps:
        return (
            f"--environment_max_steps={steps} is already reached: the checkpoint has {checkpoint.agent_steps} agent "
            "steps; a larger number would be right."
        )
    if goal is not None and checkpoint.ended_at(goal):
        return f"{goal.flag} is already reached: the run ended at it; a larger number would be right."
    return None


def checkpoint_to_use(folder: Path) -> Path | None:
    """The checkpoint with the best mean return, else the newest one, else None."""
    return next(iter([*folder.glob(BEST), *newest_first(folder)]), None)


def keep_newest(folder: Path, count: int) -> None:
    """Delete all but the newest `count` checkpoints, and the temporary files of killed writers."""
    for path in numbered_checkpoints(folder)[count:]:
        path.unlink(missing_ok=True)
    remove_abandoned(folder)


def link(source: Path, target: Path) -> None:
    """Make `target` a hard link to `source`, atomically; a copy if the file system has no links."""
    temporary = temporary_beside(target)
    try:
        os.link(source.resolve(), temporary)  # a relative symbolic link would be wrong in another folder
        os.replace(temporary, target)
    except OSError:
        with source.open("rb") as content:  # a replay may be larger than the memory
            write_atomically(target, partial(shutil.copyfileobj, content))


def _is_intact_zip(data: bytes) -> bool:
    """Whether the data is a zip file in which every checksum is right and no entry is marked as a folder."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as file:
            # torch reads nothing for an entry that is marked as a folder, and returns uninitialised memory.
            return file.testzip() is None and not any(entry.external_attr & FOLDER_BIT for entry in file.infolist())
    except Exception:  # damaged data raises many kinds of errors
        return False
