"""Checkpoints: their names, and how they are written, found, read and checked."""

import os
import pickle
import shutil
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

from option_flags import OPTIONS, Config, EnvironmentOptions, NetworkOptions, RealtimeOptions
from options.presets import CLASSIC, preset
from options.rules import UsageError, declared
from run_files.checkpoint_content import FIXED_FLAGS, NETWORK_FLAGS, check_checkpoint
from run_files.return_goal import reaches_return
from run_files.run_folder import (
    BEST,
    CHECKPOINTS,
    CONFIG,
    hold,
    newest_first,
    numbered_checkpoints,
    remove_abandoned,
    temporary_beside,
    write_atomically,
)
from run_files.value_rules import ContentError, described

FORMAT_VERSION = 3
BEST_EVAL = "best_eval.pt"

FOREIGN = "has contents that no run writes"
DAMAGED = "is cut off, damaged, or not a checkpoint of this program"
FOLDER_BIT = 0x10  # the DOS attribute of a zip entry that marks a folder
SMALL = 36  # pixels on the shorter side: below it, --network=auto was small_conv in older versions
NEWER_OPTION = "spread_starts"  # versions that do not save it also differ in the two options below
READABLE_TYPES = (torch.Tensor, int, float, str, bytes, bool, type(None))

# What the policy is and what it observes.
POLICY_OPTIONS = ("precision", *declared(EnvironmentOptions, RealtimeOptions, NetworkOptions))
# Flags that a resumed run does not inherit from its parent.
OWN_FLAGS = ("op_mode", "load_model_url", "load_weights_only")


@dataclass(frozen=True)
class Checkpoint:
    path: Path
    content: dict[str, Any]

    @property
    def options(self) -> dict[str, Any]:
        """The flags that a resumed run inherits. A --stop_at_return that was reached is not among them."""
        options = {name: value for name, value in self.content["options"].items() if name not in OWN_FLAGS}
        if NEWER_OPTION not in options:
            if options.get("lr_scheduler_steps") == self.content.get("planned_updates"):
                options["lr_scheduler_steps"] = 0  # the computed number was stored as if it were a flag
            if options["network"] == "auto" and self._sees_small_pictures:
                options["network"] = "small_conv"  # it could not be tiny_conv
        if self.has_reached(options.get("stop_at_return"), options.get("avg_buff_size", 100)):
            options["stop_at_return"] = None
        return options

    @property
    def _sees_small_pictures(self) -> bool:
        """Whether --network=auto means a network for small pictures. Versions without `spaces` knew only Atari."""
        *_, height, width = self.content.get("spaces", {"frame_shape": (1, SMALL, SMALL)})["frame_shape"]
        return 0 < min(int(height), int(width)) < SMALL

    @property
    def played_options(self) -> dict[str, Any]:
        """The flags that a test inherits: those of the policy and its observations, but not max_game_frames."""
        taken = set(POLICY_OPTIONS) - {"max_game_frames"}
        return {name: value for name, value in self.options.items() if name in taken}

    def options_of_new_run(self, given: Collection[str]) -> dict[str, Any]:
        """The flags that a new run from these weights inherits (--load_weights_only): those of the network, and those
        that name the environment if --env is not among the given ones."""
        taken = {*NETWORK_FLAGS, "feature_out_layer_size"}
        if "env" not in given:
            taken |= {"env", "env_kwargs", "env_wrapper", "largest_pixel"}
        return {name: value for name, value in self.options.items() if name in taken}

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
    def latest_returns(self) -> list[float]:
        """Returns of the latest games, as many as its --avg_buff_size at most."""
        return list(self.content["progress"].get("recent_returns", ()))

    @property
    def action_ms(self) -> float | None:
        """How long a run in real time takes from a screen to an action; None for other runs and older versions."""
        milliseconds = self.content["progress"].get("action_ms")
        return None if milliseconds is None else float(milliseconds)

    @property
    def inference_processes(self) -> int:
        """The inference processes of each worker of a run in real time; 0 for other runs and older versions."""
        return int(self.content["progress"].get("inference_processes", 0))

    def has_reached(self, goal: float | None, window: int) -> bool:
        """Whether the run ended at this goal, or the mean return of the latest `window` games is at least `goal`."""
        return self.ended_at(goal) or reaches_return(self.latest_returns[-window:], window, goal)

    def ended_at(self, goal: float | None) -> bool:
        """Whether the run ended at this goal, or a higher one; games that ended since may have lowered the mean."""
        reached = self.content["progress"].get("reached_goal")
        return goal is not None and reached is not None and bool(reached >= goal)

    @property
    def replay_path(self) -> Path:
        return self.path.parent / replay_name(self.updates)


def checkpoint_name(updates: int) -> str:
    return f"checkpoint_{updates:010d}.pt"


def replay_name(updates: int) -> str:
    return f"replays_{updates:010d}.bin"


def write_checkpoint(path: Path, content: Mapping[str, Any]) -> None:
    """Write `content` atomically. It must hold only values that can be read back without executing code."""
    versioned = {"format_version": FORMAT_VERSION, **content}
    _check_readable(versioned, "checkpoint")
    # Saved to memory first: on a full disk, torch.save raises its own error about file positions, not an OSError.
    buffer = BytesIO()
    torch.save(versioned, buffer)
    write_atomically(path, lambda file: file.write(buffer.getbuffer()))


def find_checkpoint(url: str) -> Checkpoint:
    """Read the checkpoint that `--load_model_url` names: a file, or the newest one of a checkpoint or run folder."""
    place = Path(url)
    try:
        is_folder, is_there = place.is_dir(), place.exists()
        folder = place / CHECKPOINTS if is_folder and (place / CHECKPOINTS).is_dir() else place
        if is_folder:
            next(folder.iterdir(), None)  # raises OSError; glob would return nothing for an unreadable folder
    except OSError as error:
        raise UsageError(
            f"--load_model_url={url} cannot be read ({error.strerror}); a run folder or a checkpoint would be right."
        ) from None
    if is_folder:
        candidates = newest_first(folder)
        if not candidates:
            if any((run / CONFIG).exists() for run in (place, place.parent)):
                raise UsageError(
                    f"--load_model_url={url} is a run that has not saved anything yet; while it trains, kill -USR1 "
                    "makes it save."
                )
            raise UsageError(
                f"--load_model_url={url} holds no checkpoint; a run folder or a checkpoint would be right."
            )
        place = candidates[0]
    elif not is_there:
        raise UsageError(f"--load_model_url={url} does not exist; a run folder or a checkpoint would be right.")
    if place.parent == Path():  # relative to its own folder, whose name `run_folder` needs
        place = place.absolute()
    try:
        return read_checkpoint(place)
    except InvalidCheckpointError as error:
        raise _unusable(place, str(error)) from None


def _unusable(path: Path, why: str) -> UsageError:
    """The error for a checkpoint that cannot be used; names one beside it that can."""
    usable = next((other for other in newest_first(path.parent) if other != path and _is_usable(other)), None)
    hint = f"; {usable} beside it can be used" if usable else ""
    return UsageError(f"--load_model_url: {path} {why}{hint}.")


@contextmanager
def refusing_foreign_content(checkpoint: Checkpoint) -> Iterator[None]:
    """Turn a ContentError of the block into a UsageError that names the checkpoint."""
    try:
        yield
    except ContentError as error:
        raise _unusable(checkpoint.path, f"{FOREIGN}: {error}") from None


class InvalidCheckpointError(Exception):
    """A file cannot be used as a checkpoint. The message is the rest of a sentence that begins with the file's name."""


def read_checkpoint(path: Path) -> Checkpoint:
    """Read and check a checkpoint. Raises InvalidCheckpointError if it is damaged, foreign or of another format."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidCheckpointError(f"cannot be read ({error.strerror})") from None
    try:
        if not _is_intact_zip(data):  # torch.load accepts other formats, and checks no checksums
            raise InvalidCheckpointError(DAMAGED)
        content = torch.load(BytesIO(data), map_location="cpu", weights_only=True)
    except (
        *(RuntimeError, EOFError, ValueError, LookupError, TypeError, AttributeError),
        *(OverflowError, pickle.UnpicklingError),
    ) as error:
        if "memory" in str(error):  # there is too little of it
            raise
        raise InvalidCheckpointError(DAMAGED) from None
    if not isinstance(content, dict) or not {"format_version", "options"} <= set(content):
        raise InvalidCheckpointError("is not a checkpoint of this program")
    found = content["format_version"]
    if type(found) is not int or found != FORMAT_VERSION:
        raise InvalidCheckpointError(
            f"has the format {described(found)}, but this version reads format {FORMAT_VERSION} only"
        )
    try:
        check_checkpoint(content)
    except ContentError as error:
        raise InvalidCheckpointError(f"{FOREIGN}: {error}") from None
    return Checkpoint(path, content)


def check_playable(config: Config, checkpoint: Checkpoint) -> None:
    """Refuse flags that do not fit the checkpoint's network."""
    chosen, options = config.flags(), checkpoint.options
    for name in NETWORK_FLAGS if config.run.load_weights_only else FIXED_FLAGS:
        saved = options.get(name, OPTIONS[name].default)  # an older version may lack the option
        if chosen[name] != saved:
            flag, protocol = f"--{name}={chosen[name]}", chosen["protocol"]
            if protocol != options.get("protocol", CLASSIC) and name in preset("protocol", protocol):
                flag = f"--protocol={protocol} with its {flag}"
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
    steps, goal = config.run.environment_max_steps, config.run.stop_at_return
    if checkpoint.agent_steps >= steps:
        return (
            f"--environment_max_steps={steps} is already reached: the checkpoint has {checkpoint.agent_steps} agent "
            "steps; a larger number would be right."
        )
    window = config.report.avg_buff_size
    if checkpoint.has_reached(goal, window):
        mean = np.mean(checkpoint.latest_returns[-window:])
        why = f"the mean return of the checkpoint's latest {window} games is {mean:.2f}"
        if checkpoint.ended_at(goal):
            why = "the run ended at it"
        return f"--stop_at_return={goal} is already reached: {why}; a larger number would be right."
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
        try:
            os.link(source.resolve(), temporary)  # a relative symbolic link would be wrong in another folder
        except OSError:
            shutil.copyfile(source, temporary)
            with temporary.open("rb") as copy:
                os.fsync(copy.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def kept(source: Path) -> Iterator[Path]:
    """Another name for a checkpoint, which keeps its content for the `with` block, or until it is renamed.

    If this process is killed, the next run that looks after the folder removes it.
    """
    path = temporary_beside(source)
    link(source, path)
    try:
        with path.open("rb") as file:
            hold(file)
            yield path
    finally:
        with suppress(OSError):  # the file system may have become read-only
            path.unlink(missing_ok=True)


def _check_readable(value: Any, name: str) -> None:
    """Refuse values that `weights_only=True` refuses: now, not when the run is resumed."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_readable(item, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check_readable(item, f"{name}[{index}]")
    elif type(value) not in READABLE_TYPES or (type(value) is bytes and not value):
        # Empty bytes are refused too: pickle stores them as a function call.
        raise TypeError(f"{name} is {value!r:.60} of {type(value)}, which a checkpoint cannot hold")


def _is_intact_zip(data: bytes) -> bool:
    """Whether the data is a zip file in which every checksum is right and no entry is marked as a folder."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as file:
            # torch reads nothing for an entry that is marked as a folder, and returns uninitialised memory.
            return file.testzip() is None and not any(entry.external_attr & FOLDER_BIT for entry in file.infolist())
    except Exception:  # damaged data raises many kinds of errors
        return False


def _is_usable(path: Path) -> bool:
    try:
        read_checkpoint(path)
    except InvalidCheckpointError:
        return False
    return True
