"""Brings the files of a run to its node, and from there into the sweep's folder."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster.guarded_program import Stamp
from run_files.run_folder import (
    CHECKPOINTS,
    JOB_LOG,
    newest_first,
    remove_abandoned,
    write_atomically,
)

RESULTS = "results"  # of a run, in its temporary folder on the node
TEXT = {".json", ".txt"}  # in which paths of the node become those of the sweep

Call = Callable[..., Any]  # a method of a GuardedProgram by its name, with its arguments


class RunFilesTransfer:
    """Copies between the folder of a job and the folder of its run on a node.

    Files that grow are continued; others are copied whole and renamed, so they are always complete.
    """

    def __init__(self, folder: Path, call: Call) -> None:
        self._folder = folder
        self._here, there = str(folder).encode(), f"{call('folder')}/{RESULTS}".encode()
        relative = rb"(?<![\w./-])" + RESULTS.encode() + rb"(?=/)"
        self._paths_there = re.compile(re.escape(there) + rb"|" + relative)
        self._call = call
        self._earlier = {path.name for path in folder.iterdir() if path.is_dir()}  # folders of earlier starts
        self._copied: dict[str, Stamp] = {}

    def send(self, parent: Path) -> None:
        """Send the checkpoint that a run continues from, with its replays, and the best ones of the parent."""
        remove_abandoned(parent / CHECKPOINTS)  # half of a file, from a sweep that was killed
        number = newest_first(parent / CHECKPOINTS)[0].stem.rpartition("_")[2]
        for path in (parent / CHECKPOINTS).iterdir():
            if not path.name.startswith(".") and (number in path.name or not path.name.startswith("checkpoint_")):
                self._call("write", f"{RESULTS}/{path.relative_to(self._folder)}", path.read_bytes())

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
