"""The energy that the CPU packages of the machine use, from Linux's RAPL counters."""

import re
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")


class CpuEnergy:
    """All packages together. Some systems have no counters, or let only the superuser read them.

    Only the packages themselves are counted: cores and memory are parts of them, and `psys` contains them.
    """

    def __init__(self, folder: Path = POWERCAP) -> None:
        self._ranges: dict[Path, int] = {}  # counter → its highest value in microjoules, after which it restarts at 0
        try:
            for domain in folder.glob("intel-rapl:*"):  # AMD's counters have this name too
                is_top = re.fullmatch(r"intel-rapl:\d+", domain.name)
                if is_top and (domain / "name").read_text().startswith("package"):
                    self._ranges[domain / "energy_uj"] = int((domain / "max_energy_range_uj").read_text())
            self._readings = self._read()
        except (OSError, ValueError):
            self._ranges.clear()

    def joules(self) -> float | None:
        """Energy since the previous call; None if the system does not tell.

        A counter restarts after some minutes or hours, so calls must be closer together than that.
        """
        if not self._ranges:
            return None
        try:
            readings = self._read()
        except (OSError, ValueError):
            return None  # the next reading covers this time too
        used = 0
        for counter, reading in readings.items():
            difference = reading - self._readings[counter]
            used += difference if difference >= 0 else difference + self._ranges[counter]
        self._readings = readings
        return used / 1e6

    def _read(self) -> dict[Path, int]:
        return {counter: int(counter.read_text()) for counter in self._ranges}
