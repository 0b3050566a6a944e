"""Models of the time that an inference takes, written as text such as `lognormal:50:0.3`. All times are in ms."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from options.rules import UsageError, shown

MOST = 600_000.0  # ten minutes
WANTED = (
    "be fixed:TIME, uniform:LOW:HIGH, lognormal:MEAN:SIGMA, measured:FILE or measured:TIME,TIME,... "
    f"with times in milliseconds above 0 and at most {MOST:,.0f}"
)
Times = NDArray[np.float64]


class LatencyModel(Protocol):
    """A distribution of inference times."""

    @property
    def mean(self) -> float:
        """The expected time."""

    @property
    def longest(self) -> float:
        """The longest time that can occur; infinite if there is no bound."""

    def sample(self, random: np.random.Generator, count: int) -> Times:
        """`count` independent times [count]."""


@dataclass(frozen=True)
class Fixed:
    """`fixed:TIME`: always this time."""

    time: float

    @property
    def mean(self) -> float:
        return self.time

    @property
    def longest(self) -> float:
        return self.time

    def sample(self, random: np.random.Generator, count: int) -> Times:
        return np.full(count, self.time)


@dataclass(frozen=True)
class Uniform:
    """`uniform:LOW:HIGH`: every time from LOW to HIGH is equally likely."""

    low: float
    high: float

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2

    @property
    def longest(self) -> float:
        return self.high

    def sample(self, random: np.random.Generator, count: int) -> Times:
        return random.uniform(self.low, self.high, count)


@dataclass(frozen=True)
class LogNormal:
    """`lognormal:MEAN:SIGMA`: the logarithm of the time is normal with deviation SIGMA; MEAN is the mean of the time.

    So the median is MEAN · exp(−SIGMA² / 2), and MEAN can be compared with the times of the other models.
    """

    mean: float
    sigma: float

    @property
    def longest(self) -> float:
        return math.inf

    def sample(self, random: np.random.Generator, count: int) -> Times:
        return random.lognormal(math.log(self.mean) - self.sigma**2 / 2, self.sigma, count)


@dataclass(frozen=True)
class Measured:
    """`measured:FILE` or `measured:TIME,TIME,...`: one of these times, each equally likely.

    The times in a file are separated by commas, blanks or lines.
    """

    times: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.times))

    @property
    def longest(self) -> float:
        return max(self.times)

    def sample(self, random: np.random.Generator, count: int) -> Times:
        return random.choice(np.array(self.times), count)


def parse_latency(text: str, subject: str = "--inference_latency") -> LatencyModel:
    """The model that the text describes. Raise a UsageError about `subject` if it describes none."""
    kind, _, values = text.partition(":")
    if kind == "measured" and values:
        return Measured(_measured_times(values, text, subject))
    if kind not in _MODELS:
        raise _refusal(text, subject)
    make, names = _MODELS[kind]
    words = values.split(":")
    numbers = [number for word in words if (number := _number(word)) is not None]
    if not len(numbers) == len(words) == len(names):
        raise _refusal(text, subject)
    for name, number in zip(names, numbers, strict=True):
        if name == "SIGMA" and not number <= 3:
            raise UsageError(f"{subject} must have a SIGMA of at most 3, not {shown(text)}.")
        if name != "SIGMA" and not 0 < number <= MOST:
            raise _refusal(text, subject)
    if kind == "uniform" and numbers[0] > numbers[1]:
        raise UsageError(f"{subject} must have the lower time first, as in uniform:20:80, not {shown(text)}.")
    return make(*numbers)


_MODELS: dict[str, tuple[Callable[..., LatencyModel], tuple[str, ...]]] = {
    "fixed": (Fixed, ("TIME",)),
    "uniform": (Uniform, ("LOW", "HIGH")),
    "lognormal": (LogNormal, ("MEAN", "SIGMA")),
}


def _refusal(text: str, subject: str) -> UsageError:
    return UsageError(f"{subject} must {WANTED}, not {shown(text)}.")


def _number(word: str) -> float | None:
    """The number that the word is, as people write it; None for other words, such as nan, 1_0 or −1."""
    return float(word) if re.fullmatch(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", word, re.ASCII) else None


def _measured_times(values: str, text: str, subject: str) -> tuple[float, ...]:
    if "," in values or _number(values) is not None:
        content, place = values, text
    else:
        try:
            content, place = Path(values).read_text(encoding="utf-8"), values
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            raise UsageError(
                f"{subject}={text} must name a file of times in milliseconds, or list them as in measured:20,25; "
                f"{values} cannot be read ({reason})."
            ) from None
    words = re.split(r"[\s,]+", content.strip(" \t\r\n,"))
    times = []
    for word in words:
        number = _number(word)
        if number is None or not 0 < number <= MOST:
            raise UsageError(
                f"{subject} must have times in milliseconds above 0 and at most {MOST:,.0f}, "
                f"but {shown(word)} is in {shown(place)}."
            )
        times.append(number)
    return tuple(times)
