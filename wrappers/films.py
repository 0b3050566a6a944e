"""Shows every frame of a game to a function, for films and windows."""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from wrappers.environment import Watch

SMALLEST = 160  # pixels of the longer side: smaller pictures are shown with larger pixels
COLOURS = 3


class FilmFrames(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Call `watch` with a picture after every step of the environment and every reset, and the score so far.

    It is directly around the game, so it receives every frame that frame skipping drops, and unclipped rewards.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], watch: Watch) -> None:
        super().__init__(env)
        self._watch = watch
        self._score = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        result = self.env.reset(seed=seed, options=options)
        self._score = 0.0
        self._watch(colour_picture(self.env.render()), self._score)
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        result = self.env.step(action)
        self._score += float(result[1])
        self._watch(colour_picture(self.env.render()), self._score)
        return result


def colour_picture(rendered: Any) -> NDArray[np.uint8]:
    """What `render` returned, as bytes [height, width, 3], enlarged if it is tiny. TypeError if it is no picture."""
    if not isinstance(rendered, np.ndarray):
        raise TypeError(f"render returned {type(rendered).__name__} instead of a picture")
    if rendered.ndim != 3 or rendered.shape[2] != COLOURS or rendered.dtype.kind not in "uif":
        what = f"{rendered.dtype} {list(rendered.shape)}"
        raise TypeError(f"render returned {what} instead of a picture [height, width, 3]")
    if rendered.dtype.kind == "f":  # fractions of the brightest colour
        rendered = np.rint(np.clip(rendered, 0, 1) * 255)
    picture = np.ascontiguousarray(rendered.astype(np.uint8, copy=False))
    factor = -(-SMALLEST // max(picture.shape[:2]))
    return picture.repeat(factor, axis=0).repeat(factor, axis=1) if factor > 1 else picture
