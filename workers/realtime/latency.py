"""Models of the time that an inference takes, written as text such as `lognormal:50:0.3`. All times are in ms."""

import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from options.rules import UsageError, shown

SUBJECT = "--inference_latency"
MOST = 600_000.0  # ten minutes
WANTED = (
    "be fixed:TIME, uniform:LOW:HIGH, lognormal:MEAN:SIGMA, measured:FILE or measured:TIME,TIME,... "
    f"with times in milliseconds above 0 and at most {MOST:,.0f}"
)
NUMBERS = {"fixed": 1, "uniform": 2, "lognormal": 2}  # of each kind


@dataclass(frozen=True)
class LatencyModel:
    """A distribution of inference times.

    * `fixed:TIME`: always this time.
    * `uniform:LOW:HIGH`: every time from LOW to HIGH is equally likely.
    * `lognormal:MEAN:SIGMA`: the logarithm of the time is normal with deviation SIGMA; MEAN is the mean of the time. So
      the median is MEAN · exp(−SIGMA² / 2), and MEAN can be compared with the times of the other models.
    * `measured:FILE` or `measured:TIME,TIME,...`: one of these times, each equally likely. The times in a file are
      separated by commas, blanks or lines.
    """

    kind: str
    numbers: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The expected time."""
        return self.numbers[0] if self.kind == "lognormal" else float(np.mean(self.numbers))

    @property
    def longest(self) -> float:
        """The longest time that can occur; infinite if there is no bound."""
        return math.inf if self.kind == "lognormal" else max(self.numbers)

    def sample(self, random: np.random.Generator, count: int) -> NDArray[np.float64]:
        """`count` independent times [count]."""
        if self.kind == "uniform":
            low, high = self.numbers
            return random.uniform(low, high, count)
        if self.kind == "lognormal":
            mean, sigma = self.numbers
            return random.lognormal(math.log(mean) - sigma**2 / 2, sigma, count)
        return random.choice(np.array(self.numbers), count)


def parse_latency(text: str) -> LatencyModel:
    """The model that the text describes. Raise a UsageError if it describes none."""
    kind, _, values = text.partition(":")
    if kind == "measured" and values:
        return LatencyModel(kind, _measured_times(values, text))
    numbers = tuple(number for word in values.split(":") if (number := _number(word)) is not None)
    if len(numbers) != len(values.split(":")) or len(numbers) != NUMBERS.get(kind):
        raise _refusal(text)
    times = numbers[:1] if kind == "lognormal" else numbers
    if not all(0 < time <= MOST for time in times):
        raise _refusal(text)
    if kind == "lognormal" and not numbers[1] <= 3:
        raise UsageError(f"{SUBJECT} must have a SIGMA of at most 3, not {shown(text)}.")
    if kind == "uniform" and numbers[0] > numbers[1]:
        raise UsageError(f"{SUBJECT} must have the lower time first, as in uniform:20:80, not {shown(text)}.")
    return LatencyModel(kind, numbers)


def _refusal(text: str) -> UsageError:
    return UsageError(f"{SUBJECT} must {WANTED}, not {shown(text)}.")


def _number(word: str) -> float | None:
    """The number that the word is, as people write it; None for other words, such as nan, 1_0 or −1."""
    return float(word) if re.fullmatch(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", word, re.ASCII) else None


def _measured_times(values: str, text: str) -> tuple[float, ...]:
    content, place = values, text
    if "," not in values and _number(values) is None:
        try:
            content, place = Path(values).read_text(encoding="utf-8"), values
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            raise UsageError(
                f"{SUBJECT}={text} must name a file of times in milliseconds, or list them as in measured:20,25; "
                f"{values} cannot be read ({reason})."
            ) from None
    times = []
    for word in re.split(r"[\s,]+", content.strip(" \t\r\n,")):
        number = _number(word)
        if number is None or not 0 < number <= MOST:
            raise UsageError(
                f"{SUBJECT} must have times in milliseconds above 0 and at most {MOST:,.0f}, "
                f"but {shown(word)} is in {shown(place)}."
            )
        times.append(number)
    return tuple(times)
