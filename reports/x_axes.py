"""What curves can be drawn against."""

from collections.abc import Mapping
from typing import NamedTuple


class XAxis(NamedTuple):
    """A choice for the x axis: the figure of the reports, its units in one unit of the axis, and its label."""

    figure: str
    unit: float
    label: str


X_AXES: Mapping[str, XAxis] = {
    "steps": XAxis("agent_steps", 1, "agent steps"),
    "frames": XAxis("frames", 1, "frames"),
    "minutes": XAxis("seconds", 60, "minutes"),
    "hours": XAxis("seconds", 3600, "hours"),
}
