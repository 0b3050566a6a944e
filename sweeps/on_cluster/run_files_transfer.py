"""Brings the files of a run to its node, and from there into the sweep's folder."""

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from run_files.job_runs import JOB_LOG, run_folders
from run_files.run_folder import (
    CHECKPOINTS,
    CONFIG,
    MESSAGES,
    newest_first,
    remove_abandoned,
    write_atomically,
)
from sweeps.on_cluster.node_job import RESULTS, Stamp

CHUNK = 4 << 20  # bytes of one message
GROWING = {".jsonl", ".csv"}  # files to which complete lines are added
GROWING_NAMES = {JOB_LOG, MESSAGES}
GROWING_BINARY = "tfevents"  # in the name of an event file of TensorBoard
WITH_PATHS = {".json", ".txt"}  # text in which paths of the node become those of the sweep

Call = Callable[..., Any]  # a method of the node's job by its name, with its arguments


class FileChangedError(Exception):
    """A file changed while it was copied; the next round copies it as it is then."""


class RunFilesTransfer:
    """Copies between the folder of a job and the folder of its run on a node.

    Files that grow line by line are continued; others are copied whole and renamed, so they are always complete.
    """

    def __init__(self, folder: Path, node_folder: str, call: Call) -> None:
        self._folder = folder
        self._here, self._there = str(folder).encode(), node_folder.encode()
        relative = rb"(?<![\w./-])" + RESULTS.encode() + rb"(?=/)"
        self._paths_there = re.compile(re.escape(self._there) + rb"|" + relative)
        self._call = call
        self._earlier = {path.name for path in folder.iterdir() if path.is_dir()}  # folders of earlier starts
        self._offsets: dict[str, int] = {}
        self._copied: dict[str, Stamp] = {}

    def send(self, parent: Path | None) -> None:
        """Send what a run needs to continue: the checkpoint of the parent, and the figures of all earlier starts.

        The folders of all earlier starts are made there, so that the new one gets another name.
        """
        for name in self._earlier:
            for folder, _, _ in os.walk(self._folder / name):
                remove_abandoned(Path(folder))
            self._call("make_folder", name)
        for run in run_folders(self._folder):
            for path in sorted(run.iterdir()):
                if path.suffix in GROWING or path.name == CONFIG:
                    self._send(path)
        if parent is not None:
            newest = next(iter(newest_first(parent / CHECKPOINTS)))
            number = newest.stem.rpartition("_")[2]
            for path in sorted((parent / CHECKPOINTS).iterdir()):
                if number in path.name or not path.name.startswith("checkpoint_"):
                    self._send(path)

    def fetch(self, files: Mapping[str, Stamp], ended: bool) -> None:
        """Bring what is new. `ended`: nothing is written any more, so incomplete last lines are brought too."""
        changed = False
        for name, stamp in sorted(files.items(), key=lambda item: item[1].modified):
            path = Path(name)
            if path.parts[0] in self._earlier:
                continue
            if path.suffix in GROWING or path.name in GROWING_NAMES or GROWING_BINARY in path.name:
                self._continue(name, stamp.size, ended)
            elif self._copied.get(name) != stamp:
                try:
                    self._copy(name, stamp)
                except FileChangedError:
                    changed = True
        if not changed:
            self._remove_old_checkpoints(files)

    def _send(self, path: Path) -> None:
        name, offset = str(path.relative_to(self._folder)), 0
        if path.name == CONFIG:
            self._call("write", name, 0, path.read_bytes().replace(self._here, self._there))
            return
        with path.open("rb") as file:
            while (content := file.read(CHUNK)) or offset == 0:
                self._call("write", name, offset, content)
                offset += len(content)
                if not content:
                    break

    def _continue(self, name: str, size: int, ended: bool) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        while (offset := self._offsets.get(name, 0)) < size:
            content = self._call("read", name, None, offset, CHUNK)
            if not content:
                return
            if not ended and GROWING_BINARY not in path.name:
                content = content[: content.rfind(b"\n") + 1]
                if not content:
                    return
            self._append(path, self._with_own_paths(path, content))
            self._offsets[name] = offset + len(content)

    @staticmethod
    def _append(path: Path, content: bytes) -> None:
        """Add all of it or, on a full disk, nothing: the next round adds it then."""
        size = path.stat().st_size if path.exists() else 0
        try:
            with path.open("ab") as file:
                file.write(content)
        except OSError:
            with suppress(FileNotFoundError):
                os.truncate(path, size)
            raise

    def _copy(self, name: str, stamp: Stamp) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)

        def write(file: BinaryIO) -> None:
            offset = 0
            while offset < stamp.size:
                content = self._call("read", name, stamp, offset, CHUNK)
                if not content:
                    raise FileChangedError
                offset += len(content)
                file.write(self._with_own_paths(path, content))

        write_atomically(path, write)
        self._copied[name] = stamp

    def _with_own_paths(self, path: Path, content: bytes) -> bytes:
        return self._paths_there.sub(lambda _: self._here, content) if path.suffix in WITH_PATHS else content

    def _remove_old_checkpoints(self, files: Mapping[str, Stamp]) -> None:
        for name in [name for name in self._copied if name not in files]:
            del self._copied[name]
            if Path(name).parent.name == CHECKPOINTS:
                (self._folder / name).unlink(missing_ok=True)
