"""Exports a trained policy: `python -m evaluation.export results/<run>` writes it as ONNX and as TorchScript."""

import importlib.util
import json
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import numpy as np
import torch

from agents.distributions import IMPOSSIBLE, masked
from agents.network import ActorCritic, NetworkInput
from agents.spaces import check_spaces, make_unroll_layout, saved_layout, unroll_layout
from agents.torsos.own_torso import is_own
from evaluation.exported_policy import ExportedPolicy, exported
from machine.program import run_command
from option_flags import Config
from options.command_line import split_words
from options.rules import PATH, Options, UsageError, declared, option
from run_files.checkpoint import Checkpoint, find_checkpoint, refusing_foreign_content
from run_files.run_folder import write_atomically
from workers.policy_inputs import PolicyInputs
from wrappers.any_environment.faults import EnvironmentFaultError, last_line, traceback_of
from wrappers.environment import as_observation, environment_spec
from wrappers.make_environment import make_environment

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
TOLERANCE = 1e-5
REAL_FRAMES, RANDOM_FRAMES = 24, 8

Tensors = tuple[torch.Tensor, ...]


USAGE = "usage: python -m evaluation.export RUN [--output=FOLDER]"


@dataclass(frozen=True, kw_only=True)
class ExportOptions(Options):
    topic = "Options"

    output: str | None = option(None, PATH, "Folder for the files; export in the run's folder if unset.")


def main(arguments: Sequence[str]) -> None:
    flags, runs = split_words(arguments, declared(ExportOptions))
    given = ExportOptions(**flags)
    if len(runs) != 1:
        raise UsageError(
            "evaluation.export needs one run folder or checkpoint: python -m evaluation.export results/<run>."
        )
    _require_packages()
    try:
        checkpoint = find_checkpoint(runs[0])
        folder = Path(given.output) if given.output else checkpoint.run_folder / "export"
        differences = export(checkpoint, folder)
    except EnvironmentFaultError as error:
        raise UsageError("the environment of the run has a fault, see above.", error.report) from None
    except UsageError as error:
        print(end=error.details, file=sys.stderr)
        raise UsageError(str(error).replace("--load_model_url=", "").replace("--load_model_url: ", "")) from None
    for path, difference in differences.items():
        size = path.stat().st_size / 1e6
        print(f"{path}: {size:.1f} MB, differs from the network by {difference:.0e} at most")


def export(checkpoint: Checkpoint, folder: Path) -> dict[Path, float]:
    """Write policy.onnx and policy.pt. Returns the largest difference of each file's outputs from the network's.

    Nothing is written if a difference exceeds TOLERANCE.
    """
    config = Config.from_flags(checkpoint.options)
    network = load_network(checkpoint, config)
    check_spaces(checkpoint.content, make_unroll_layout(config, make_environment))
    policy = exported(network)
    inputs = comparison_inputs(config, network)
    expected = reference(network, inputs)
    with _naming_own_torso(config.network.network):
        files = {"policy.onnx": as_onnx(policy, inputs, checkpoint.options)}
        files["policy.pt"] = as_torchscript(policy, inputs)
    differences: dict[str, float] = {}
    for name, content in files.items():
        compute = onnx_function(content, policy.inputs) if name.endswith(".onnx") else torchscript_function(content)
        differences[name] = largest_difference(compute, inputs, expected)
        if not differences[name] <= TOLERANCE:
            raise UsageError(
                f"{name} would not compute what the network computes: its outputs differ by {differences[name]:.1e}, "
                f"and at most {TOLERANCE:.0e} is allowed, so nothing is written."
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            write_atomically(folder / name, content)
    except OSError as error:
        raise UsageError(
            f"--output={folder} cannot be written ({error.strerror}); name a folder that you can write to."
        ) from None
    return {folder / name: difference for name, difference in differences.items()}


def load_network(checkpoint: Checkpoint, config: Config) -> ActorCritic:
    """The checkpoint's network, in float32."""
    # Features that replays compare are no part of the policy.
    with refusing_foreign_content(checkpoint):
        layout = replace(saved_layout(checkpoint.content, config), feature_size=0)
    network = ActorCritic(config.network, layout, torch.float32)
    with refusing_foreign_content(checkpoint):
        network.load_saved(checkpoint.content["learner"]["network"])
    return network.eval().requires_grad_(False)


def comparison_inputs(config: Config, network: ActorCritic) -> Tensors:
    """Inputs for the comparison: observations of a real game and random ones; for an LSTM also the other inputs."""
    environment = make_environment(config.environment.without_clock(), seed=0)
    rng, generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
    shape, policy = _action_shape(network), network.distribution
    observation, starts = environment.reset()[0], True
    layout = unroll_layout(config, environment_spec(environment))
    shown = PolicyInputs.at_start(1, layout)
    pictures, real_vectors = [], []
    while True:
        shown.show(0, as_observation(observation), starts)
        pictures.append(shown.pictures[0].clone(memory_format=torch.contiguous_format))
        real_vectors.append(shown.vectors[0].clone())
        if len(pictures) == REAL_FRAMES:
            break
        parameters = torch.zeros(policy.parameter_count)
        if layout.mask_size:
            parameters = masked(parameters, shown.vectors[0, layout.vector_size :])
        action = policy.sample(parameters, torch.from_numpy(rng.random(shape)))
        observation, _, terminated, truncated, _ = environment.step(action.numpy() if shape else int(action))
        starts = terminated or truncated
        if starts:
            observation = environment.reset()[0]
    environment.close()
    inputs: list[torch.Tensor] = []
    if network.background.numel():
        random = rng.integers(0, 256, (RANDOM_FRAMES, *pictures[0].shape), dtype=np.uint8)
        inputs.append(torch.cat([torch.stack(pictures), torch.from_numpy(random)]))
    vectors, masks = torch.split(torch.stack(real_vectors), [layout.vector_size, layout.mask_size], 1)
    if network.vector_mean is not None and network.vector_deviation is not None:
        # Random ones around the mean, some of them beyond the limit of normalised numbers.
        normal = torch.randn(RANDOM_FRAMES, vectors.shape[1], generator=generator)
        inputs.append(torch.cat([vectors, network.vector_mean + 5 * network.vector_deviation * normal]))
    if layout.mask_size:
        inputs.append(torch.cat([masks, torch.randint(2, (RANDOM_FRAMES, layout.mask_size), generator=generator)]))
    if network.lstm is None:
        return tuple(inputs)
    count = len(inputs[0])
    parameters = torch.zeros(count, policy.parameter_count)
    actions = policy.sample(parameters, torch.rand(count, *shape, generator=generator))
    actions[0] = 0 if actions.is_floating_point() else -1  # no action before
    rewards = torch.randn(count, generator=generator)
    states = torch.randn(count, 2, network.lstm_size, generator=generator)
    return *inputs, actions, rewards, states


def _action_shape(network: ActorCritic) -> tuple[int, ...]:
    """The shape of one action of the network's policy."""
    policy = network.distribution
    return tuple(policy.most_likely(torch.zeros(policy.parameter_count)).shape)


def reference(network: ActorCritic, inputs: Tensors) -> Tensors:
    """The outputs of the network itself, called as in training and acting."""
    count, given = len(inputs[0]), list(inputs)
    observations = given.pop(0) if network.background.numel() else torch.zeros(count, 0, 0, 0, dtype=torch.uint8)
    parts = [given.pop(0) for present in (network.vector_mean is not None, network.mask_size) if present]
    vectors = torch.cat(parts, 1)[None] if parts else None
    no_actions = torch.zeros(count, *_action_shape(network), dtype=torch.int64)
    actions, rewards, states = given or (no_actions, torch.zeros(count), torch.zeros(count, 2, 0))
    starts = torch.zeros(1, count, dtype=torch.bool)
    output = network(NetworkInput(observations[None], actions[None], rewards[None], starts, states, vectors))
    outputs = output.logits[0], output.values[0], output.lstm_state
    return outputs if network.lstm is not None else outputs[:2]


def as_onnx(policy: ExportedPolicy, inputs: Tensors, options: dict[str, object]) -> bytes:
    """The policy as ONNX. The run's options are in the metadata; they define how observations are made."""
    count = torch.export.Dim("N")
    with warnings.catch_warnings(), _quiet("torch.onnx"):
        # The first warning is about torch's own code. The second says that several inputs share one N, as intended.
        warnings.filterwarnings("ignore", r".*isinstance\(treespec, LeafSpec\)", FutureWarning)
        warnings.filterwarnings("ignore", "# The axis name: N will not be used", UserWarning)
        program = torch.onnx.export(
            policy,
            inputs,
            dynamo=True,
            input_names=list(policy.inputs),
            output_names=list(policy.outputs),
            dynamic_shapes=(tuple({0: count} for _ in inputs),),  # one tuple: the policy takes any number of inputs
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    model.metadata_props.add(key="options", value=json.dumps(options))
    content: bytes = model.SerializeToString()
    return content


def as_torchscript(policy: ExportedPolicy, inputs: Tensors) -> bytes:
    buffer = BytesIO()
    with _known_deprecation():
        torch.jit.save(torch.jit.trace(policy, inputs), buffer)  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def onnx_function(content: bytes, names: Sequence[str]) -> Callable[[Tensors], Tensors]:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def compute(inputs: Tensors) -> Tensors:
        given = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
        return tuple(torch.from_numpy(array) for array in session.run(None, given))

    return compute


def torchscript_function(content: bytes) -> Callable[[Tensors], Tensors]:
    with _known_deprecation():
        module = torch.jit.load(BytesIO(content))  # type: ignore[no-untyped-call]
    return lambda inputs: tuple(module(*inputs))


def largest_difference(compute: Callable[[Tensors], Tensors], inputs: Tensors, expected: Tensors) -> float:
    """The largest difference of an output, for the whole batch and for single rows.

    It is relative to the largest number of this output in the batch, or absolute if all are below 1: rounding is as
    large for a value near 0 as for the others, because all are sums of equally large terms.
    """
    scales = [torch.where(other > IMPOSSIBLE, other, 0.0).abs().max().clamp(min=1) for other in expected]
    differences = []
    for rows in (slice(None), slice(0, 1), slice(-1, None)):
        found = compute(tuple(tensor[rows] for tensor in inputs))
        for one, other, scale in zip(found, expected, scales, strict=True):
            differences.append(float(((one - other[rows]).abs() / scale).max()))
    return float(np.max(differences))  # unlike Python's max, keeps NaN


def _require_packages() -> None:
    missing = [package for package in PACKAGES if importlib.util.find_spec(package) is None]
    if missing:
        which = f"package{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
        raise UsageError(f"The export needs the {which}; run pip install {' '.join(missing)}.")


@contextmanager
def _known_deprecation() -> Iterator[None]:
    """Hide the warning that TorchScript is deprecated: it still works, and docs/export.md mentions it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`torch\.jit\.\w+` is deprecated", DeprecationWarning)
        yield


@contextmanager
def _naming_own_torso(network: str) -> Iterator[None]:
    """What cannot be exported is most likely the torso, if that is the user's own."""
    try:
        yield
    except Exception as error:
        if not is_own(network):
            raise
        sentence = f"--network={network} cannot be exported: {last_line(error)}."
        raise UsageError(sentence, traceback_of(error)) from None


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Hide the messages of a logger, here about packages that the export does not need."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


if __name__ == "__main__":
    run_command(main, USAGE, ExportOptions)
