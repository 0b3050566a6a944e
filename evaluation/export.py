"""Exports a trained policy: `python -m evaluation.export results/<run>` writes it as ONNX and as TorchScript."""

import importlib.util
import json
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import torch
from torch import nn

from agents.distributions import IMPOSSIBLE, masked
from agents.network import PIXEL_SCALE, ActorCritic, NetworkInput
from agents.spaces import saved_layout
from agents.torsos.own_torso import LARGEST_INPUT, TorsoInput, is_own
from machine.program import run_command
from option_flags import Config
from options.command_line import split_words
from options.rules import PATH, Options, UsageError, declared, option
from replay.unroll_layout import UnrollLayout
from run_files.checkpoint import Checkpoint, find_checkpoint, refusing_foreign_content
from run_files.run_folder import write_atomically
from wrappers.any_environment.faults import last_line, traceback_of

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
TOLERANCE = 1e-5
COMPARED = 32  # random observations

Tensors = tuple[torch.Tensor, ...]
Compute = Callable[[Tensors], Tensors]


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
    missing = [package for package in PACKAGES if importlib.util.find_spec(package) is None]
    if missing:
        raise UsageError(f"The export needs {', '.join(PACKAGES)}; run pip install {' '.join(missing)}.")
    try:
        checkpoint = find_checkpoint(runs[0])
        folder = Path(given.output) if given.output else checkpoint.run_folder / "export"
        differences = export(checkpoint, folder)
    except UsageError as error:
        sentence = str(error).replace("--load_model_url=", "").replace("--load_model_url: ", "")
        raise UsageError(sentence, error.details) from None
    for path, difference in differences.items():
        size = path.stat().st_size / 1e6
        print(f"{path}: {size:.1f} MB, differs from the network by {difference:.0e} at most")


def export(checkpoint: Checkpoint, folder: Path) -> dict[Path, float]:
    """Write policy.onnx and policy.pt. Returns the largest difference of each file's outputs from the network's.

    Nothing is written if a difference exceeds TOLERANCE.
    """
    config = Config.from_flags(checkpoint.options)
    network, layout = load_network(checkpoint, config)
    policy = ExportedPolicy(network)
    inputs = random_inputs(network, layout)
    expected = reference(network, inputs)
    try:
        described = {"options": json.dumps(checkpoint.options), "logits": json.dumps(logit_names(layout))}
        files = {"policy.onnx": as_onnx(policy, inputs, described)}
        files["policy.pt"] = as_torchscript(policy, inputs)
    except Exception as error:  # most likely of the torso, if that is the user's own
        if not is_own(config.network.network):
            raise
        sentence = f"--network={config.network.network} cannot be exported: {last_line(error)}."
        raise UsageError(sentence, traceback_of(error)) from None
    computes = {
        "policy.onnx": onnx_function(files["policy.onnx"]),
        "policy.pt": torchscript_function(files["policy.pt"]),
    }
    differences = {name: largest_difference(compute, inputs, expected) for name, compute in computes.items()}
    for name, difference in differences.items():
        if not difference <= TOLERANCE:
            raise UsageError(
                f"{name} would not compute what the network computes: its outputs differ by {difference:.1e}, "
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


def logit_names(layout: UnrollLayout) -> list[str]:
    """What each of the logits is, such as "UP", "arm.grip: 1", "speed: mean" and "speed: log deviation"."""
    figures = [f"{name}: {figure}" for figure in ("mean", "log deviation") for name in layout.number_names]
    return layout.choice_names + figures


def load_network(checkpoint: Checkpoint, config: Config) -> tuple[ActorCritic, UnrollLayout]:
    """The checkpoint's network, in float32, and the layout of its unrolls."""
    with refusing_foreign_content(checkpoint):
        # Features that replays compare are no part of the policy.
        layout = replace(saved_layout(checkpoint.content, config), feature_size=0)
    network = ActorCritic(config.network, layout, torch.float32)
    with refusing_foreign_content(checkpoint):
        network.load_saved(checkpoint.content["learner"]["network"])
    return network.eval().requires_grad_(False), layout


class ExportedPolicy(nn.Module):
    """A network in a form that can be exported: one step, in float32, with only tensors as inputs and outputs.

    It shares the network's parameters. Inputs: `observations [N, S*C, H, W]` uint8 if there are pictures, then
    `vectors [N, D]` if there are vectors, then `action_masks [N, P]`, 1 for a possible choice and 0 for another, if
    there are action masks; with an LSTM also `previous_actions [N, ...]`, `previous_rewards [N]` and
    `states [N, 2, L]`. At the start of an episode the previous action is -1 for choices and 0 for real numbers, and the
    previous reward and the state are 0. Outputs: `logits [N, P]`, `values [N]`; with an LSTM `new_states [N, 2, L]`.
    """

    def __init__(self, network: ActorCritic) -> None:
        super().__init__()
        self.torso, self.policy_head, self.value_head = network.torso, network.policy_head, network.value_head
        self.lstm, self.distribution = network.lstm, network.distribution
        self.has_pictures, self.has_vectors = network.background.numel() > 0, network.vector_mean is not None
        self.has_masks = network.mask_size > 0
        parts = {"observations": self.has_pictures, "vectors": self.has_vectors, "action_masks": self.has_masks}
        self.inputs = [name for name, is_there in parts.items() if is_there]
        self.outputs = ["logits", "values"]
        if self.lstm is not None:
            self.inputs += ["previous_actions", "previous_rewards", "states"]
            self.outputs.append("new_states")
        for name in ("background", "vector_mean", "vector_deviation"):
            self.register_buffer(name, getattr(network, name))
        self.eval().requires_grad_(False)

    background: torch.Tensor
    vector_mean: torch.Tensor
    vector_deviation: torch.Tensor

    def forward(self, *inputs: torch.Tensor) -> Tensors:
        given = dict(zip(self.inputs, inputs, strict=True))
        parts: list[torch.Tensor] = []
        if self.has_pictures:
            parts.append((given["observations"].float() - self.background) * PIXEL_SCALE)
        if self.has_vectors:
            normalised = (given["vectors"] - self.vector_mean) / self.vector_deviation
            parts.append(normalised.clamp(-LARGEST_INPUT, LARGEST_INPUT))
        observed: TorsoInput = parts[0] if len(parts) == 1 else (parts[0], parts[1])
        features: torch.Tensor = self.torso(observed)
        new_states: list[torch.Tensor] = []
        if self.lstm is not None:
            actions = self.distribution.encode(given["previous_actions"])
            features = torch.cat([features, actions, given["previous_rewards"].unsqueeze(-1)], dim=-1)
            features, cell = lstm_step(self.lstm, features, given["states"])
            new_states.append(torch.stack([features, cell], dim=1))
        logits = self.policy_head(features)
        if self.has_masks:
            logits = masked(logits, given["action_masks"])
        return logits, self.value_head(features).squeeze(-1), *new_states


def lstm_step(lstm: nn.LSTM, features: torch.Tensor, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One LSTM step, written out, because exporters would export the loop over time steps inside `nn.LSTM`."""
    weights, recurrent, bias, recurrent_bias = (
        lstm.get_parameter(f"{kind}_l0") for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    hidden, cell = states[:, 0], states[:, 1]
    gates = nn.functional.linear(features, weights, bias) + nn.functional.linear(hidden, recurrent, recurrent_bias)
    input_gate, forget_gate, content, output_gate = gates.chunk(4, dim=-1)
    cell = torch.sigmoid(forget_gate) * cell + torch.sigmoid(input_gate) * torch.tanh(content)
    return torch.sigmoid(output_gate) * torch.tanh(cell), cell


def random_inputs(network: ActorCritic, layout: UnrollLayout) -> Tensors:
    """Inputs of the policy, for the comparison with the network."""
    generator = torch.Generator().manual_seed(0)
    inputs: list[torch.Tensor] = []
    if network.background.numel():
        shape = (COMPARED, *network.background.shape[-3:])
        inputs.append(torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator))
    if network.vector_mean is not None and network.vector_deviation is not None:
        # Some of them are beyond the limit of normalised numbers.
        normal = torch.randn(COMPARED, len(network.vector_mean), generator=generator)
        inputs.append(network.vector_mean + 5 * network.vector_deviation * normal)
    if network.mask_size:
        inputs.append(torch.randint(2, (COMPARED, network.mask_size), generator=generator).float())
    if network.lstm is not None:
        policy = network.distribution
        parameters = torch.zeros(COMPARED, policy.parameter_count)
        uniforms = torch.rand(policy.most_likely(parameters).shape, generator=generator)
        actions = policy.sample(parameters, uniforms)
        actions[0] = torch.from_numpy(layout.no_action)
        rewards = torch.randn(COMPARED, generator=generator)
        inputs += [actions, rewards, torch.randn(COMPARED, 2, network.lstm_size, generator=generator)]
    return tuple(inputs)


def reference(network: ActorCritic, inputs: Tensors) -> Tensors:
    """The outputs of the network itself, called as in training and acting."""
    count, given = len(inputs[0]), list(inputs)
    observations = given.pop(0) if network.background.numel() else torch.zeros(count, 0, 0, 0, dtype=torch.uint8)
    parts = [given.pop(0) for present in (network.vector_mean is not None, network.mask_size) if present]
    vectors = torch.cat(parts, 1)[None] if parts else None
    no_actions = torch.zeros_like(
        network.distribution.most_likely(torch.zeros(count, network.distribution.parameter_count))
    )
    actions, rewards, states = given or (no_actions, torch.zeros(count), torch.zeros(count, 2, 0))
    starts = torch.zeros(1, count, dtype=torch.bool)
    output = network(NetworkInput(observations[None], actions[None], rewards[None], starts, states, vectors))
    outputs = output.logits[0], output.values[0], output.lstm_state
    return outputs if network.lstm is not None else outputs[:2]


def as_onnx(policy: ExportedPolicy, inputs: Tensors, metadata: Mapping[str, str]) -> bytes:
    """The policy as ONNX. The run's options in the metadata define how observations are made."""
    count = torch.export.Dim("N")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it names packages that are not needed here
    with warnings.catch_warnings():
        # The first warning is about torch's own code. The second says that several inputs share one N, as intended.
        warnings.filterwarnings("ignore", r".*isinstance\(treespec, LeafSpec\)", FutureWarning)
        warnings.filterwarnings("ignore", "# The axis name: N will not be used", UserWarning)
        program = torch.onnx.export(
            policy,
            inputs,
            dynamo=True,
            input_names=policy.inputs,
            output_names=policy.outputs,
            dynamic_shapes=(tuple({0: count} for _ in inputs),),  # one tuple: the policy takes any number of inputs
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=value)
    content: bytes = model.SerializeToString()
    return content


def as_torchscript(policy: ExportedPolicy, inputs: Tensors) -> bytes:
    buffer = BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`torch\.jit\.\w+` is deprecated", DeprecationWarning)
        torch.jit.save(torch.jit.trace(policy, inputs), buffer)  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def onnx_function(content: bytes) -> Compute:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]

    def compute(inputs: Tensors) -> Tensors:
        given = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
        return tuple(torch.from_numpy(array) for array in session.run(None, given))

    return compute


def torchscript_function(content: bytes) -> Compute:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"`torch\.jit\.\w+` is deprecated", DeprecationWarning)
        module = torch.jit.load(BytesIO(content))  # type: ignore[no-untyped-call]
    return lambda inputs: tuple(module(*inputs))


def largest_difference(compute: Compute, inputs: Tensors, expected: Tensors) -> float:
    """The largest difference of an output from what is expected, for the whole batch and for a single row.

    It is relative to the largest number of this output in the batch, or absolute if all are below 1: rounding is as
    large for a value near 0 as for the others, because all are sums of equally large terms.
    """
    differences = []
    for rows in (slice(None), slice(0, 1)):
        found = compute(tuple(tensor[rows] for tensor in inputs))
        for one, other in zip(found, expected, strict=True):
            scale = torch.where(other > IMPOSSIBLE, other, 0.0).abs().max().clamp(min=1)
            differences.append(((one - other[rows]).abs() / scale).max())
    return float(torch.stack(differences).max())  # unlike Python's max, keeps NaN


if __name__ == "__main__":
    run_command(main, USAGE, ExportOptions)
