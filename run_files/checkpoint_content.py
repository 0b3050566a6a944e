"""What a checkpoint holds, declared once.

`CHECKPOINT` is what every checkpoint holds. What depends on the network, on the environment or on the number of workers
is declared by the functions below it. Keys are only ever added: those that older versions did not write are optional.
"""

import math
from collections.abc import Mapping
from typing import Any, get_args

import torch
from torch import nn

from option_flags import OPTIONS
from options.replay_options import parse_replays
from options.rules import UsageError
from replay.stored_vectors import STORED
from replay.unroll_layout import MOST_CHOICES, MOST_NUMBERS, MOST_PIXELS, ActionKind, UnrollLayout
from run_files.unroll_content import open_unrolls, unrolls
from run_files.value_rules import (
    ANY_NUMBER,
    GENERATOR_TEXT,
    LIST,
    TABLE,
    TEXT,
    Check,
    ContentError,
    is_tensor,
    list_of,
    must_be,
    nothing_or,
    number,
    numbers,
    raw_bytes,
    table,
    table_of,
    tensor,
    tuple_of,
    whole,
)

DRAW_SUMS = 7  # figures that are summed for each replay
TORSO = "torso."  # begins the names of the torso's weights
PROJECTION = "projection"  # the weights whose second dimension an option may change between two runs

# Flags that the weights depend on, except for those of the policy head, and that every version has saved.
_FIRST_NETWORK_FLAGS = (
    *("network", "use_lstm", "lstm_size"),
    *("frames_stacked", "grayscaling_frames", "frame_scale_resolution"),
)
NETWORK_FLAGS = (*_FIRST_NETWORK_FLAGS, "popart", "factored_actions")
# Flags that the network and the unrolls depend on: a resumed run or a test cannot change them.
FIXED_FLAGS = ("env", *NETWORK_FLAGS, "full_action_space", "largest_pixel")
# Options that must be in a checkpoint: where one is missing, its default could be wrong.
NEEDED_OPTIONS = (
    *("env", *_FIRST_NETWORK_FLAGS),
    *("environment_max_steps", "replay_parameters", "batch_size", "r_f_steps"),
)
# The state of an optimizer for one parameter, by an option that only this optimizer has: (name, smallest number).
OPTIMIZER_STATES: Mapping[str, tuple[tuple[str, float | None], ...]] = {
    "alpha": (("square_avg", 0.0),),  # RMSProp
    "betas": (("exp_avg", None), ("exp_avg_sq", 0.0)),  # Adam
}


def _option(name: str) -> Check:
    def check(value: Any, place: str) -> None:
        try:
            OPTIONS[name].metadata["rule"].checked(place, value)
        except UsageError as error:
            raise ContentError(str(error).removesuffix(".")) from None

    return check


def _replay_parameters(value: Any, place: str) -> None:
    TEXT(value, place)
    try:
        parse_replays(value)
    except UsageError as error:
        raise ContentError(f"{place}: {str(error).removesuffix('.')}") from None


# Options that this version does not know are reported when the options of the run are put together.
SAVED_OPTIONS = table(
    {name: _option(name) for name in NEEDED_OPTIONS} | {"replay_parameters": _replay_parameters},
    {name: _option(name) for name in OPTIONS if name not in NEEDED_OPTIONS},
)

_PROGRESS = table(
    {
        "agent_steps": whole(),
        "updates": whole(),
        "episodes": whole(),
        "seconds": number(0),
        "recent_returns": list_of(number()),
        "return_max": nothing_or(number()),
        "best_return_mean": nothing_or(number()),
        "stretch_steps": whole(),
        "stretch_seconds": number(),
        "stage_seconds": table_of(str, number()),
        "learned": nothing_or(list_of(ANY_NUMBER)),
        "learned_names": list_of(TEXT),
        "updates_learned": whole(),
        "lags": list_of(whole()),
        "draw_sums": list_of(list_of(ANY_NUMBER, DRAW_SUMS)),
        "draws": whole(),
    },
    {
        "frames": whole(),
        "best_eval_mean": nothing_or(number()),
        "return_min": nothing_or(number()),
        "evaluated_steps": whole(),
        "reached_goal": nothing_or(number()),
        "action_ms": nothing_or(number(0)),
        "inference_ms": nothing_or(number(0)),  # of older versions
        "inference_processes": whole(),
        "action_timing": table(
            {
                "frames": whole(),
                "idle_frames": whole(),
                "ages": list_of(tuple_of(whole(), whole())),
                "intervals": list_of(tuple_of(whole(), whole())),
            },
            {"clock": list_of(number(0), 6)},
        ),
    },
)


def _progress(value: Any, place: str) -> None:
    """The counters, and that those of an interval belong together."""
    _PROGRESS(value, place)
    if value["learned"] is not None:
        list_of(TEXT, len(value["learned"]))(value["learned_names"], f"{place}.learned_names")
        whole(1)(value["updates_learned"], f"{place}.updates_learned")
    if value["draw_sums"]:
        whole(1)(value["draws"], f"{place}.draws")


_ANY_TENSOR = must_be("numbers of a network", is_tensor)
_SEAT = table(
    {"game": nothing_or(TABLE), "uniforms": GENERATOR_TEXT, "finished_games": list_of(tuple_of(number(), whole()))},
)
_SNAPSHOT = table(
    {
        "seats": list_of(_SEAT),  # the environments of one worker
        "lstm_state": list_of(list_of(list_of(number()))),
        "previous_actions": LIST,
        "previous_rewards": list_of(number()),
    },
    # Of observations with pictures; of those with vectors; with delayed actions.
    {"observations": raw_bytes(), "vectors": raw_bytes(), "open_unrolls": TABLE},
)
_SIZES = table(
    {
        "frame_stack": whole(0, 1000),
        "frame_shape": list_of(whole(0, MOST_PIXELS), 3),
        "vector_size": whole(0, MOST_NUMBERS),
        "one_hot_size": whole(0, MOST_NUMBERS),
        "action_kind": must_be("discrete, product or gaussian", lambda kind: kind in get_args(ActionKind)),
        "action_sizes": list_of(whole(1, MOST_CHOICES)),
    },
    {
        "vector_parts": list_of(
            tuple_of(must_be(f"one of {', '.join(STORED)}", lambda stored: stored in STORED), whole(1, MOST_NUMBERS)),
            most=MOST_NUMBERS,
        ),
        "action_names": list_of(TEXT, most=MOST_CHOICES),
    },
    only=True,
)


def _spaces(value: Any, place: str) -> None:
    """Observations and actions, and that the parts of a vector are all of it; older versions did not save them."""
    _SIZES(value, place)
    if value.get("vector_parts"):
        size = value["vector_size"]
        whole(size, size)(sum(size for _, size in value["vector_parts"]), f"{place}.vector_parts: their numbers")


_CHECKPOINT = table(
    {
        "format_version": whole(),
        "options": SAVED_OPTIONS,
        "action_count": whole(1, MOST_CHOICES),
        "unroll": TEXT,
        "resumes": whole(),
        "planned_updates": whole(1),
        "learner": table(
            {
                "updates": whole(),
                "network": table_of(str, _ANY_TENSOR),
                "optimizer": table(
                    {"state": table_of(int, table_of(str, _ANY_TENSOR)), "param_groups": list_of(TABLE, 1)}
                ),
            },
            {"background_updates": whole(), "target": table_of(str, _ANY_TENSOR)},  # the target network of IMPACT
        ),
        "progress": _progress,
        "in_flight": nothing_or(
            table({"snapshots": list_of(_SNAPSHOT), "unrolls": tensor(torch.uint8, None, None)}),
        ),
    },
    {"spaces": _spaces, "network_source": nothing_or(table({"network": TEXT, "file": TEXT, "sha256": TEXT}))},
)


def check_checkpoint(content: Any) -> None:
    """Refuse a content that no run writes, whatever its network and environment are."""
    _CHECKPOINT(content, "")
    updates = content["learner"]["updates"]
    whole(updates, updates)(content["progress"]["updates"], "progress.updates")
    sums, replays = content["progress"]["draw_sums"], parse_replays(content["options"]["replay_parameters"])
    list_of(LIST, len(replays) if sums else 0)(sums, "progress.draw_sums")


def check_weights(content: Mapping[str, Any], network: nn.Module) -> None:
    """Refuse weights that are not those of this network, or not finite.

    A buffer of a torso of the user's own may be infinite, as the mask of an attention layer is.
    """
    buffers = {f"{TORSO}{name}" for name, _ in _own_torso(network).named_buffers()}
    expected = {
        name: tensor(weights.dtype, *_shape(name, weights), finite=name not in buffers)
        for name, weights in network.state_dict().items()
    }
    for name in ("network", "target"):
        if name in content["learner"]:
            table(expected, only=True)(content["learner"][name], f"learner.{name}")


def check_optimizer(content: Mapping[str, Any], network: nn.Module) -> None:
    """Refuse an optimizer that is not one of this network's parameters. It need not be the run's present optimizer.

    A torso of the user's own may have weights that no output depends on. They have no state.
    """
    optimizer, place = content["learner"]["optimizer"], "learner.optimizer"
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    group, group_place = optimizer["param_groups"][0], f"{place}.param_groups[0]"
    state = next((state for option, state in OPTIMIZER_STATES.items() if option in group), None)
    if state is None:
        raise ContentError(f"{group_place} must be the options of RMSProp or Adam")
    options = {"lr": number(), "eps": number()}
    if "alpha" in group:
        options |= {"alpha": number(), "momentum": number(0)}
        if group.get("momentum"):
            state = (*state, ("momentum_buffer", None))
    else:
        options |= {"betas": tuple_of(number(), number())}
    indices = [whole(index, index) for index in range(len(parameters))]
    table({**options, "params": tuple_of(*indices)})(group, group_place)

    def of_parameter(weights: nn.Parameter) -> Check:
        memory = {name: tensor(weights.dtype, *weights.shape, finite=False, low=low) for name, low in state}
        return table({"step": tensor(torch.float32, low=0.0), **memory})

    if optimizer["state"]:  # empty before the first update
        expected = {index: of_parameter(weights) for index, weights in enumerate(parameters)}
        own = {id(weights) for weights in _own_torso(network).parameters()}
        needed = {index: expected[index] for index, weights in enumerate(parameters) if id(weights) not in own}
        table(needed, expected, only=True)(optimizer["state"], f"{place}.state")


def _own_torso(network: nn.Module) -> nn.Module:
    """The network's torso if it is the user's own; else a module without weights."""
    torso = getattr(network, "torso", None) if getattr(network, "has_own_torso", False) else None
    return torso if isinstance(torso, nn.Module) else nn.Module()


def check_in_flight(in_flight: Any, layout: UnrollLayout, workers: int, environments: int) -> None:
    """Refuse snapshots that do not fit this many workers, each with this many environments. Games are not checked."""
    stack = layout.frame_stack * math.prod(layout.frame_shape)
    snapshot = table(
        {
            "seats": list_of(TABLE, environments),
            **({"observations": raw_bytes(environments * stack)} if layout.has_pictures else {}),
            "lstm_state": numbers(environments, 2, layout.lstm_size),
            "previous_actions": _previous_actions(layout, environments),
            **({"vectors": raw_bytes(environments * layout.vector_size * 4)} if layout.vector_size else {}),
            "previous_rewards": numbers(environments),
            **({"open_unrolls": open_unrolls(layout, environments)} if layout.delayed_actions else {}),
        }
    )
    expected = {"snapshots": list_of(snapshot, workers), "unrolls": unrolls(layout, workers * environments)}
    table(expected)(in_flight, "in_flight")


def _previous_actions(layout: UnrollLayout, environments: int) -> Check:
    """The latest action of each environment: numbers that may be chosen, -1 for none, or real numbers."""
    if layout.action_kind == "gaussian":
        return numbers(environments, *layout.action_shape)
    if layout.action_kind == "discrete":
        return list_of(whole(-1, layout.action_count - 1), environments)
    return list_of(tuple_of(*(whole(-1, size - 1) for size in layout.action_sizes)), environments)


def _shape(name: str, weights: torch.Tensor) -> tuple[int | None, ...]:
    """The shape that saved weights must have. Another number of projected features is replaced by the run's own."""
    return (weights.shape[0], None) if name == PROJECTION else tuple(weights.shape)
