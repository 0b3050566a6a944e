"""Exports a trained policy: `python -m evaluation.export results/<run>` writes it as ONNX."""

import importlib.util
import json
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from agents.distributions import IMPOSSIBLE
from agents.network import ActorCritic, NetworkInput
from agents.spaces import saved_layout
from agents.torsos.own_torso import is_own
from machine.program import run_command
from option_flags import Config
from options.command_line import split_words
from options.rules import PATH, Options, UsageError, declared, option
from replay.unroll_layout import UnrollLayout
from run_files.checkpoint import Checkpoint, find_checkpoint, refusing_foreign_content
from run_files.run_folder import write_atomically
from wrappers.any_environment.faults import last_line, traceback_of

USAGE = "usage: python -m evaluation.export RUN [--output=FOLDER]"
FILE = "policy.onnx"
PACKAGES = ("onnx", "onnxscript", "onnxruntime")
TOLERANCE = 1e-5
COMPARED = 32  # random observations

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True, kw_only=True)
class ExportOptions(Options):
    output: str | None = option(None, PATH, "Folder for the file; export in the run's folder if unset.")


def main(arguments: Sequence[str]) -> None:
    flags, runs = split_words(arguments, declared(ExportOptions))
    given = ExportOptions(**flags)
    if len(runs) != 1:
        raise UsageError(
            "evaluation.export needs one run folder or checkpoint: python -m evaluation.export results/<run>."
        )
    if missing := [package for package in PACKAGES if importlib.util.find_spec(package) is None]:
        raise UsageError(f"The export needs {', '.join(PACKAGES)}; run pip install {' '.join(missing)}.")
    try:
        checkpoint = find_checkpoint(runs[0])
        folder = Path(given.output) if given.output else checkpoint.run_folder / "export"
        path, difference = export(checkpoint, folder)
    except UsageError as error:
        sentence = str(error).replace("--load_model_url=", "").replace("--load_model_url: ", "")
        raise UsageError(sentence, error.details) from None
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, differs from the network by {difference:.0e} at most")


def export(checkpoint: Checkpoint, folder: Path) -> tuple[Path, float]:
    """Write policy.onnx. Returns its path, and the largest difference of its outputs from the network's.

    Nothing is written if the difference exceeds TOLERANCE.
    """
    config = Config.from_flags(checkpoint.options)
    network, layout = load_network(checkpoint, config)
    given = random_inputs(network, layout)
    policy, inputs = ExportedPolicy(network, list(given)).eval().requires_grad_(False), tuple(given.values())
    expected = policy(*inputs)
    described = {"options": json.dumps(checkpoint.options), "logits": json.dumps(logit_names(layout))}
    example = tuple(tensor[:2] for tensor in inputs)  # the number of rows must not be fixed by it
    with warnings.catch_warnings():
        # Of torch's own code, and of sizes that tracing may fix: the files are compared for another number of rows.
        warnings.simplefilter("ignore")
        try:
            program = as_onnx(policy, example, described)
        except Exception as error:  # most likely of the torso, if that is the user's own
            if not is_own(config.network.network):
                raise
            sentence = f"--network={config.network.network} cannot be exported: {last_line(error)}."
            raise UsageError(sentence, traceback_of(error)) from None
    difference = largest_difference(program, inputs, expected)
    if not difference <= TOLERANCE:
        raise UsageError(
            f"{FILE} would not compute what the network computes: its outputs differ by {difference:.1e}, "
            f"and at most {TOLERANCE:.0e} is allowed, so nothing is written."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / FILE, program.model_proto.SerializeToString())
    except OSError as error:
        raise UsageError(
            f"--output={folder} cannot be written ({error.strerror}); name a folder that you can write to."
        ) from None
    return folder / FILE, difference


def logit_names(layout: UnrollLayout) -> list[str]:
    """What each of the logits is, such as "UP", "arm.grip: 1", "speed: mean" and "speed: log deviation"."""
    figures = [f"{name}: {figure}" for figure in ("mean", "log deviation") for name in layout.number_names]
    return layout.choice_names + figures


class ExportedPolicy(nn.Module):
    """One step of a network, with only tensors as inputs and outputs.

    Inputs: `observations [N, S*C, H, W]` uint8 if there are pictures, then `vectors [N, D]` if there are vectors, then
    `action_masks [N, P]`, 1 for a possible choice and 0 for another, if there are action masks; with an LSTM also
    `previous_actions [N, ...]`, `previous_rewards [N]` and `states [N, 2, L]`. At the start of an episode the previous
    action is -1 for choices and 0 for real numbers, and the previous reward and the state are 0.
    Outputs: `logits [N, P]`, `values [N]`; with an LSTM `new_states [N, 2, L]`.
    """

    def __init__(self, network: ActorCritic, inputs: Sequence[str]) -> None:
        super().__init__()
        self.network = network
        self.inputs = inputs
        self.outputs = ["logits", "values", *([] if network.lstm is None else ["new_states"])]

    def forward(self, *inputs: torch.Tensor) -> Tensors:
        given, count = dict(zip(self.inputs, inputs, strict=True)), inputs[0].shape[0]
        vectors = [given[name] for name in ("vectors", "action_masks") if name in given]
        no_picture, unused = torch.zeros(count, 0, 0, 0, dtype=torch.uint8), torch.zeros(count)
        output = self.network(
            NetworkInput(
                observations=given.get("observations", no_picture)[None],
                previous_actions=given.get("previous_actions", unused)[None],
                previous_rewards=given.get("previous_rewards", unused)[None],
                starts=torch.zeros(1, count, dtype=torch.bool),
                lstm_state=given.get("states", unused),
                vectors=torch.cat(vectors, -1)[None] if vectors else None,
            )
        )
        outputs = output.logits[0], output.values[0], output.lstm_state
        return outputs[: len(self.outputs)]


def load_network(checkpoint: Checkpoint, config: Config) -> tuple[ActorCritic, UnrollLayout]:
    """The checkpoint's network, in float32, and the layout of its unrolls."""
    with refusing_foreign_content(checkpoint):
        # Features that replays compare are no part of the policy.
        layout = replace(saved_layout(checkpoint.content, config), feature_size=0)
        network = ActorCritic(config.network, layout, torch.float32)
        network.load_saved(checkpoint.content["learner"]["network"])
    return network, layout


def random_inputs(network: ActorCritic, layout: UnrollLayout) -> dict[str, torch.Tensor]:
    """Inputs of the policy by name, for the comparison with the network."""
    generator = torch.Generator().manual_seed(0)
    inputs: dict[str, torch.Tensor] = {}
    if network.background.numel():
        shape = (COMPARED, *network.background.shape[-3:])
        inputs["observations"] = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    if network.vector_mean is not None and network.vector_deviation is not None:
        # Some of them are beyond the limit of normalised numbers.
        normal = torch.randn(COMPARED, len(network.vector_mean), generator=generator)
        inputs["vectors"] = network.vector_mean + 5 * network.vector_deviation * normal
    if network.mask_size:
        inputs["action_masks"] = torch.randint(2, (COMPARED, network.mask_size), generator=generator).float()
    if network.lstm is not None:
        policy = network.distribution
        parameters = torch.zeros(COMPARED, policy.parameter_count)
        uniforms = torch.rand(policy.most_likely(parameters).shape, generator=generator)
        actions = policy.sample(parameters, uniforms)
        actions[0] = torch.from_numpy(layout.no_action)
        inputs["previous_actions"] = actions
        inputs["previous_rewards"] = torch.randn(COMPARED, generator=generator)
        inputs["states"] = torch.randn(COMPARED, 2, network.lstm_size, generator=generator)
    return inputs


def as_onnx(policy: ExportedPolicy, inputs: Tensors, metadata: Mapping[str, str]) -> torch.onnx.ONNXProgram:
    """The policy as ONNX, which ONNX Runtime computes if it is called.

    The run's options in the metadata define how observations are made.
    """
    import onnxruntime

    count = torch.export.Dim("N")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it names packages that are not needed here
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
    program.model.metadata_props.update(metadata)
    # On a GPU, where there is one, it would round differently.
    program.initialize_inference_session(partial(onnxruntime.InferenceSession, providers=["CPUExecutionProvider"]))
    return program


def largest_difference(compute: Callable[..., Sequence[torch.Tensor]], inputs: Tensors, expected: Tensors) -> float:
    """The largest difference of an output from what is expected, for the whole batch and for a single row.

    It is relative to the largest number of this output in the batch, or absolute if all are below 1: rounding is as
    large for a value near 0 as for the others, because all are sums of equally large terms.
    """
    differences = []
    for rows in (slice(None), slice(0, 1)):
        found = compute(*(tensor[rows] for tensor in inputs))
        for one, other in zip(found, expected, strict=True):
            scale = torch.where(other > IMPOSSIBLE, other, 0.0).abs().max().clamp(min=1)
            differences.append(((one - other[rows]).abs() / scale).max())
    return float(torch.stack(differences).max())  # unlike Python's max, keeps NaN


if __name__ == "__main__":
    run_command(main, USAGE, ExportOptions)
