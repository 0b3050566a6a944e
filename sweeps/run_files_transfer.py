"""Brings the files of a run to its node, and from there into the sweep's folder."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster.guarded_program import Stamp
from run_files.run_folder import (
    CHECKPOINTS,
    CONFIG,
    JOB_LOG,
    newest_first,
    remove_abandoned,
    run_folders,
    write_atomically,
)

RESULTS = "results"  # of a run, in its temporary folder on the node
FIGURES = {".jsonl", ".csv"}
TEXT = {".json", ".txt"}  # in which paths of the node become those of the sweep

Call = Callable[..., Any]  # a method of a GuardedProgram by its name, with its arguments


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
        content = path.read_bytes()
        if path.name == CONFIG:
            content = content.replace(self._here, self._there)
        self._call("write", f"{RESULTS}/{path.relative_to(self._folder)}", content)

    def fetch(self) -> int | None:
        """Bring what is new; the exit code, once the run has ended and all is here."""
        code, names, changes = self._call("news", RESULTS, self._copied, self._earlier)
        for name, stamp, offset, content in changes:
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            own = self._paths_there.sub(lambda _: self._here, content) if path.suffix in TEXT else content
            if offset or name == JOB_LOG:  # the log of earlier starts stays
                with path.open("ab") as file:
                    file.write(own)
            else:
                write_atomically(path, own)
            self._copied[name] = stamp
        if changes:
            return None
        for name in self._copied.keys() - names:
            del self._copied[name]
            if Path(name).parent.name == CHECKPOINTS:
                (self._folder / name).unlink(missing_ok=True)
        return code  # type: ignore[no-any-return]
