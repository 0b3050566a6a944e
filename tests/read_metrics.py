"""All reports of a run at once; a program reads them as they grow."""

import itertools
import json
from pathlib import Path

from run_files.metrics import Report


def read_metrics(path: Path) -> list[Report]:
    """The reports of a metrics file. An incomplete last line, of a killed or a running process, is left out."""
    with path.open("rb") as lines:
        return [json.loads(line) for line in itertools.takewhile(lambda line: line.endswith(b"\n"), lines)]
