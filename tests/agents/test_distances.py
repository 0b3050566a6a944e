import math
from decimal import Decimal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.ranking import cosine_distance, ln_norm

HALF = 65504.0  # the largest number of float16, in which features are stored
PAIRS = [((3, 2), (3, 2)), ((4, 1), (3,)), ((), (2, 3)), ((1, 2), (3, 1)), ((), ())]  # dimensions before F


def slow_ln_norm(a: list[float], b: list[float], p: float) -> float:
    return float(sum(abs(x - y) ** p for x, y in zip(a, b, strict=True)) ** (1 / p))


def slow_cosine_distance(a: list[float], b: list[float]) -> float:
    """With 28 decimal digits: floats lose most of their digits if the cosine is almost 1."""
    if not any(a) or not any(b):
        return 1.0
    dot = sum(Decimal(x) * Decimal(y) for x, y in zip(a, b, strict=True))
    squares = [sum(Decimal(x) ** 2 for x in vector) for vector in (a, b)]
    return float(1 - dot / (Decimal(squares[0]) * Decimal(squares[1])).sqrt())


def vectors(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float32)


@st.composite
def two_arrays(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor]:
    """Two arrays of features in the range of float16, whose shapes broadcast; some are zero or equal."""
    before_a, before_b = draw(st.sampled_from(PAIRS))
    features = draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    scale = draw(st.sampled_from([6e-8, 1e-3, 1.0, HALF]))
    a, b = (rng.uniform(-scale, scale, (*before, features)) for before in (before_a, before_b))
    if draw(st.booleans()):
        a, b = np.round(a / scale) * scale, np.round(b / scale) * scale
    return torch.from_numpy(a).float(), torch.from_numpy(b).float()


@settings(deadline=None)
@given(two_arrays(), st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, 16.0]))
def test_distances_match_their_definitions(arrays: tuple[torch.Tensor, torch.Tensor], p: float) -> None:
    shape = np.broadcast_shapes(arrays[0].shape, arrays[1].shape)
    a, b = arrays[0].expand(shape), arrays[1].expand(shape)
    norms, cosines = ln_norm(*arrays, p), cosine_distance(*arrays)
    assert norms.dtype == cosines.dtype == torch.float32
    assert norms.shape == cosines.shape == shape[:-1]
    for place in np.ndindex(*norms.shape):
        x, y = a[place].tolist(), b[place].tolist()
        assert math.isclose(norms[place].item(), slow_ln_norm(x, y, p), rel_tol=1e-4)
        assert math.isclose(cosines[place].item(), slow_cosine_distance(x, y), rel_tol=1e-5, abs_tol=1e-6)


@pytest.mark.parametrize(
    ("p", "scale"), [(0.5, 6e-8), (0.5, 1e30), (1.0, HALF), (2.0, 1.0), (60.0, 6e-8), (60.0, 1e30)]
)
def test_the_norm_of_many_features_of_any_size(p: float, scale: float) -> None:
    rows = np.random.default_rng(0).uniform(-scale, scale, (3, 512)).astype(np.float32)
    rows[1] = -rows[0]
    found = ln_norm(torch.from_numpy(rows[:1]), torch.from_numpy(rows[1:]), p).double() / scale
    slow = [slow_ln_norm((rows[0] / scale).tolist(), (row / scale).tolist(), p) for row in rows[1:]]
    np.testing.assert_allclose(found, slow, rtol=1e-4)


def test_equal_vectors_have_distance_zero_and_no_distance_is_negative() -> None:
    rows = torch.randn(50, 64, generator=torch.Generator().manual_seed(0))
    assert ln_norm(rows, rows, 2.0).tolist() == [0.0] * 50
    assert cosine_distance(rows, rows).tolist() == [0.0] * 50
    assert (cosine_distance(rows, rows * 0.7) >= 0).all()


def test_cosine_distances_of_equal_opposite_and_orthogonal_directions() -> None:
    found = cosine_distance(vectors([2, 0]), vectors([5, 0], [-1, 0], [0, 3], [1, 1]))
    torch.testing.assert_close(found, torch.tensor([0, 2, 1, 1 - math.sqrt(0.5)]))


def test_a_zero_vector_has_cosine_distance_one_to_every_vector() -> None:
    others = vectors([0, 0], [1, 0], [-HALF, HALF], [1e-30, 3e38])
    assert cosine_distance(torch.zeros(2), others).tolist() == [1.0] * 4
    assert cosine_distance(others, torch.zeros(2)).tolist() == [1.0] * 4


@pytest.mark.parametrize(
    ("size_a", "size_b"), [(1e-44, 1e-44), (1e-44, 3e38), (3e38, 1e-44), (3e38, 3e38), (1.0, 1e-30)]
)
def test_the_cosine_does_not_depend_on_length(size_a: float, size_b: float) -> None:
    a, b = vectors([size_a, size_a, 0]), vectors([0, size_b, size_b], [-size_b, -size_b, 0], [size_b, size_b, 0])
    torch.testing.assert_close(cosine_distance(a, b), torch.tensor([0.5, 2.0, 0.0]))


def test_vectors_of_flushed_denormals_are_zero_vectors() -> None:
    """Training flushes denormals to zero; a division by them would give NaN."""
    torch.set_flush_denormal(True)
    a = vectors([1e-44] * 40, [1e-39] * 40, [1e-30] * 40)
    torch.testing.assert_close(cosine_distance(a, torch.ones(40)), torch.tensor([1.0, 1.0, 0.0]))
    assert ln_norm(a, torch.zeros(40), 2.0)[:2].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("drift", [1e-2, 1e-3, 1e-4])
def test_small_cosine_distances_are_exact(drift: float) -> None:
    """1 − cosine in float32 is a multiple of 6e-8, too coarse to order vectors that differ little."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20, 64))
    a, b = torch.from_numpy(rows).float(), torch.from_numpy(rows + drift * rng.normal(size=(20, 64))).float()
    slow = [slow_cosine_distance(x.tolist(), y.tolist()) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(cosine_distance(a, b), slow, rtol=1e-2)


def test_infinite_and_nan_features_give_infinite_and_nan_distances() -> None:
    far = vectors([1.0, math.inf], [3e38, 0.0], [math.nan, 0.0], [math.nan, math.inf])
    norms = ln_norm(vectors([-3e38, 0.0]), far, 2.0)
    assert norms[:2].tolist() == [math.inf, math.inf]
    assert norms[2:].isnan().all()
    assert cosine_distance(torch.ones(2), far)[2:].isnan().all()


def test_distances_have_no_gradient() -> None:
    a = torch.ones(3, requires_grad=True)
    assert not ln_norm(a, torch.zeros(3), 2.0).requires_grad
    assert not cosine_distance(a, torch.zeros(3)).requires_grad


@pytest.mark.parametrize(("a", "b"), [((3, 4), (3, 1)), ((4,), (5,)), ((), (4,)), ((4,), ())])
def test_vectors_of_different_lengths_are_refused(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="the same F"):
        ln_norm(torch.zeros(a), torch.zeros(b), 2.0)
    with pytest.raises(ValueError, match="the same F"):
        cosine_distance(torch.zeros(a), torch.zeros(b))
