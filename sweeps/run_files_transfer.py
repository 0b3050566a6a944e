"""Brings the files of a run to its node, and from there into the sweep's folder."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from cluster.guarded_program import Stamp
from run_files.run_folder import CHECKPOINTS, CONFIG, newest_first, remove_abandoned, run_folders, write_atomically

RESULTS = "results"  # of a run, in its temporary folder on the node
CHUNK = 4 << 20  # bytes of one message
FIGURES = {".jsonl", ".csv"}
TEXT = {".json", ".txt"}  # in which paths of the node become those of the sweep

Call = Callable[..., Any]  # a method of a GuardedProgram by its name, with its arguments


class FileChangedError(Exception):
    """A file changed while it was copied; the next round copies it as it is then."""


class RunFilesTransfer:
    """Copies between the folder of a job and the folder of its run on a node.

    Files that grow are continued; others are copied whole and renamed, so they are always complete.
    """

    def __init__(self, folder: Path, call: Call) -> None:
        self._folder = folder
        self._here, self._there = str(folder).encode(), f"{call('folder')}/{RESULTS}".encode()
        relative = rb"(?<![\w./-])" + RESULTS.encode() + rb"(?=/)"
        self._paths_there = re.compile(re.escape(self._there) + rb"|" + relative)
        self._call = call
        self._earlier = {path.name for path in folder.iterdir() if path.is_dir()}  # folders of earlier starts
        self._copied: dict[str, Stamp] = {}

    def send(self, parent: Path | None) -> None:
        """Send what a run needs to continue: the checkpoint of the parent, and the figures of all earlier starts."""
        for run in run_folders(self._folder):
            remove_abandoned(run / CHECKPOINTS)  # half of a file, from a sweep that was killed
            for path in sorted(run.iterdir()):
                if path.suffix in FIGURES or path.name == CONFIG:
                    self._send(path)
        if parent is not None:
            number = newest_first(parent / CHECKPOINTS)[0].stem.rpartition("_")[2]
            for path in sorted((parent / CHECKPOINTS).iterdir()):
                if not path.name.startswith(".") and (number in path.name or not path.name.startswith("checkpoint_")):
                    self._send(path)

    def _send(self, path: Path) -> None:
        name, offset = str(path.relative_to(self._folder)), 0
        with path.open("rb") as file:
            while (content := file.read(CHUNK)) or not offset:
                if path.name == CONFIG:
                    content = content.replace(self._here, self._there)
                self._call("write", f"{RESULTS}/{name}", offset, content)
                offset += len(content)
                if not content:
                    break

    def fetch(self, files: Mapping[str, Stamp]) -> None:
        """Bring what is new."""
        changed = False
        for name, stamp in sorted(files.items(), key=lambda item: item[1].modified):
            path = Path(name)
            before = self._copied.get(name)
            if path.parts[0] in self._earlier or stamp == before:
                continue
            (self._folder / path.parent).mkdir(parents=True, exist_ok=True)
            try:
                if path.suffix in FIGURES or path.suffix == ".txt" or "tfevents" in path.name:
                    with (self._folder / name).open("ab") as file:
                        self._copy(name, file, 0 if before is None else before.size, stamp.size)
                else:
                    self._copy_whole(name, stamp)
            except FileChangedError:
                changed = True
                continue
            self._copied[name] = stamp
        if not changed:
            self._remove_old_checkpoints(files)

    def _copy_whole(self, name: str, stamp: Stamp) -> None:
        write_atomically(self._folder / name, lambda file: self._copy(name, file, 0, stamp.size, stamp))

    def _copy(self, name: str, file: BinaryIO, offset: int, end: int, stamp: Stamp | None = None) -> None:
        """Add this part of a file. FileChangedError if the file has another stamp than this one."""
        while offset < end:
            content = self._call("read", f"{RESULTS}/{name}", stamp, offset, min(CHUNK, end - offset))
            if not content:
                raise FileChangedError
            offset += len(content)
            is_text = Path(name).suffix in TEXT
            file.write(self._paths_there.sub(lambda _: self._here, content) if is_text else content)

    def _remove_old_checkpoints(self, files: Mapping[str, Stamp]) -> None:
        for name in [name for name in self._copied if name not in files]:
            del self._copied[name]
            if Path(name).parent.name == CHECKPOINTS:
                (self._folder / name).unlink(missing_ok=True)
