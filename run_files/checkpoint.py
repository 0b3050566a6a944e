"""Checkpoints: what they are called, how they are written, and how one is found, read and checked."""

import os
import pickle
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import torch

from option_flags import Config, EnvironmentOptions, NetworkOptions
from options.rules import UsageError, declared
from run_files.run_folder import CHECKPOINTS, remove_abandoned, temporary_beside, write_atomically

FORMAT_VERSION = 3
BEST = "best.pt"
BEST_EVAL = "best_eval.pt"

DAMAGED = "is cut off, damaged, or no checkpoint of ours"
FOLDER_BIT = 0x10  # of a part's attributes in a zip file, as DOS had them
READABLE_TYPES = (torch.Tensor, int, float, str, bytes, bool, type(None))

# What the network and the unrolls are made for.
FIXED_FLAGS = (
    *("env", "network", "use_lstm", "lstm_size"),
    *("frames_stacked", "grayscaling_frames", "frame_scale_resolution"),
)
# What the policy is and what it observes.
POLICY_OPTIONS = ("precision", *declared(EnvironmentOptions, NetworkOptions))
# What a resumed run has of its own, and does not take from its parent.
OWN_FLAGS = ("op_mode", "load_model_url")


@dataclass(frozen=True)
class Checkpoint:
    path: Path
    content: dict[str, Any]

    @property
    def options(self) -> dict[str, Any]:
        """The flags that a resumed run starts from."""
        options = {name: value for name, value in self.content["options"].items() if name not in OWN_FLAGS}
        if options.get("lr_scheduler_steps") == self.content.get("planned_updates"):
            options["lr_scheduler_steps"] = 0  # older versions wrote down as chosen what they had planned
        return options

    @property
    def played_options(self) -> dict[str, Any]:
        """The flags that a test starts from: what the policy is and what it sees, and not how long a game may be."""
        taken = set(POLICY_OPTIONS) - {"max_game_frames"}
        return {name: value for name, value in self.options.items() if name in taken}

    @property
    def run_folder(self) -> Path:
        """The folder of the run that wrote it; for a checkpoint outside of any, the folder that it is in."""
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
    """Write `content`, which must hold only what can be read back without running any code."""
    whole = {"format_version": FORMAT_VERSION, **content}
    _check_readable(whole, "checkpoint")
    # By way of memory: where a disk is full, torch.save would raise an error of its own, about positions in the file.
    buffer = BytesIO()
    torch.save(whole, buffer)
    write_atomically(path, lambda file: file.write(buffer.getbuffer()))


def find_checkpoint(url: str) -> Checkpoint:
    """The checkpoint that `--load_model_url` means: a file, or the newest of a checkpoint folder or a run folder."""
    place = Path(url)
    try:
        is_folder, is_there = place.is_dir(), place.exists()
        folder = place / CHECKPOINTS if is_folder and (place / CHECKPOINTS).is_dir() else place
        if is_folder:
            next(folder.iterdir(), None)  # glob takes a folder that cannot be read for an empty one
    except OSError as error:
        raise UsageError(
            f"--load_model_url={url} cannot be read ({error.strerror}); a run folder or a checkpoint would be right."
        ) from None
    if is_folder:
        candidates = newest_first(folder)
        if not candidates:
            if any((run / "config.json").exists() for run in (place, place.parent)):
                raise UsageError(
                    f"--load_model_url={url} is a run that has saved nothing yet; kill -USR1 makes it, while it trains."
                )
            raise UsageError(
                f"--load_model_url={url} holds no checkpoint; a run folder or a checkpoint would be right."
            )
        place = candidates[0]
    elif not is_there:
        raise UsageError(f"--load_model_url={url} does not exist; a run folder or a checkpoint would be right.")
    try:
        return read_checkpoint(place)
    except UnusableError as error:
        whole = next((path for path in newest_first(place.parent) if path != place and _is_whole(path)), None)
        hint = f"; {whole} beside it is whole" if whole else ""
        raise UsageError(f"--load_model_url: {place} {error}{hint}.") from None


class UnusableError(Exception):
    """Why a file cannot be gone on from, as the end of a sentence that begins with its name."""


def read_checkpoint(path: Path) -> Checkpoint:
    try:
        written = path.read_bytes()
    except OSError as error:
        raise UnusableError(f"cannot be read ({error.strerror})") from None
    try:
        if not _is_whole_zip(written):  # torch.load takes what is no zip for an older format, and looks at no checksum
            raise UnusableError(DAMAGED)
        content = torch.load(BytesIO(written), map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError):
        raise UnusableError(DAMAGED) from None
    if not isinstance(content, dict) or not {"format_version", "options", "learner", "progress"} <= set(content):
        raise UnusableError("is no checkpoint of ours")
    if content["format_version"] != FORMAT_VERSION:
        raise UnusableError(
            f"has the format {content['format_version']}, but this version reads format {FORMAT_VERSION} only"
        )
    return Checkpoint(path, content)


def check_playable(config: Config, checkpoint: Checkpoint) -> None:
    """Refuse flags that the checkpoint's weights were not made for."""
    wanted, saved = config.flags(), checkpoint.options
    for name in FIXED_FLAGS:
        if wanted[name] != saved[name]:
            instead = "" if config.run.op_mode == "test" else ", or begin a new run with --op_mode=train"
            raise UsageError(
                f"--{name}={wanted[name]} cannot go on from a checkpoint of {saved[name]}; leave it out{instead}."
            )


def check_resumable(config: Config, checkpoint: Checkpoint) -> None:
    """Refuse flags that the checkpoint's weights were not made for, and a run that is over already."""
    check_playable(config, checkpoint)
    if checkpoint.agent_steps >= config.run.environment_max_steps:
        raise UsageError(
            f"--environment_max_steps={config.run.environment_max_steps} is reached already: the checkpoint has "
            f"{checkpoint.agent_steps} agent steps; a larger number goes on."
        )


def newest_first(folder: Path) -> list[Path]:
    """The numbered checkpoints of a folder; the best one where there is no other."""
    numbered = sorted(folder.glob("checkpoint_*.pt"), reverse=True)
    return numbered or sorted(folder.glob(BEST))


def keep_newest(folder: Path, count: int) -> None:
    """Delete all but the newest `count` checkpoints, and what killed writers left half-written."""
    for path in sorted(folder.glob("checkpoint_*.pt"), reverse=True)[count:]:
        path.unlink(missing_ok=True)
    remove_abandoned(folder)


def link(source: Path, target: Path) -> None:
    """Make `target` the same file as `source`, at once; a copy where the file system has no links."""
    temporary = temporary_beside(target)
    try:
        try:
            os.link(source.resolve(), temporary)  # what a link leads to, which is not the same seen from elsewhere
        except OSError:
            shutil.copyfile(source, temporary)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _check_readable(value: Any, name: str) -> None:
    """Refuse at once, and not at the resume, what `weights_only=True` would refuse."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check_readable(item, f"{name}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check_readable(item, f"{name}[{index}]")
    elif type(value) not in READABLE_TYPES or (type(value) is bytes and not value):
        # Empty bytes too: they are stored as a call to their type.
        raise TypeError(f"{name} is {value!r:.60} of {type(value)}, which a checkpoint cannot hold")


def _is_whole_zip(written: bytes) -> bool:
    """Whether it is one, of files only, in which each part has the checksum that stands beside it."""
    try:
        with zipfile.ZipFile(BytesIO(written)) as parts:
            # For what is marked as a folder, torch reads nothing, and takes what lies in memory for its content.
            return parts.testzip() is None and not any(part.external_attr & FOLDER_BIT for part in parts.infolist())
    except Exception:  # damaged bytes end in errors of many kinds
        return False


def _is_whole(path: Path) -> bool:
    try:
        read_checkpoint(path)
    except UnusableError:
        return False
    return True
