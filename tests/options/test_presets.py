"""--protocol and --loss set several flags at once; single flags beat them, and a run keeps its own."""

import json
from pathlib import Path
from typing import Any

import pytest

from option_flags import OPTIONS, Config, EnvironmentOptions, against_gpu_settings, merged, preset
from options.presets import PRESETS, VTRACE
from options.rules import UsageError
from reports.run_header import protocol_in_words
from sweeps.plan import plan_sweep
from tests.options.words import parse, sentence_of

CLASSIC, MACHADO = parse([]), parse(["--protocol=machado"])


NAMES = list(preset("protocol", "machado"))


def protocol_values(config: Config) -> dict[str, Any]:
    return {name: getattr(config.environment, name) for name in NAMES}


@pytest.mark.parametrize(("option", "value"), [("protocol", "classic"), ("settings", "standard"), ("loss", "vtrace")])
def test_the_first_value_of_each_is_the_defaults_and_the_others_set_the_same_flags(option: str, value: str) -> None:
    """Otherwise one would leave something of another one behind."""
    assert preset(option, value) == {name: OPTIONS[name].default for name in preset(option, value)}
    assert parse([f"--{option}={value}"]) == CLASSIC.replace_flags(**{option: value})
    assert all(
        preset(option, other).keys() == preset(option, value).keys() for other in PRESETS[option] if other != "auto"
    )
    assert preset(option, "auto") == preset(option, None) == {}


def test_machado_is_that_of_the_paper_and_of_dopamine() -> None:
    environment = MACHADO.environment
    assert environment.repeat_action_probability == 0.25
    assert environment.full_action_space
    assert not (environment.episodic_life or environment.fire_on_reset or environment.noop_threshold)
    assert environment.max_game_frames == 108_000
    differing = {name for name, value in MACHADO.flags().items() if value != CLASSIC.flags()[name]}
    assert differing == {"protocol", *preset("protocol", "machado")} - {"max_game_frames"}


def test_the_settings_for_a_gpu_are_those_of_the_documents() -> None:
    config = parse(["--settings=atari_gpu"])
    assert config.replay.shares == (4, 12)
    assert config.workers.envs_per_worker == 4


def test_minigrid_needs_no_flag_for_its_pictures() -> None:
    for env in ("MiniGrid-DoorKey-6x6-v0", "minigrid:BabyAI-GoToObj-v0"):
        environment = parse([f"--env={env}"]).environment
        assert environment.env_wrapper == "minigrid.wrappers:ImgObsWrapper" and environment.largest_pixel == 10
    assert parse(["--env=MiniGrid-Empty-5x5-v0", "--env_wrapper=unset"]).environment.env_wrapper is None


def test_flags_of_its_own_and_untried_ones_are_against_the_settings_for_a_gpu() -> None:
    assert against_gpu_settings({"env": "PongNoFrameskip-v4", "seed": 1, "network": "nature_norm"}) == []
    assert against_gpu_settings({"seed": 1, "loss": "impact", "lr": 1e-3}) == ["lr", "loss"]
    assert against_gpu_settings({"loss": "vtrace", "use_lstm": False}) == []


def test_single_flags_beat_the_protocol(tmp_path: Path) -> None:
    file = tmp_path / "my.flags"
    for words, in_file in (
        (["--protocol=machado", "--episodic_life"], ""),
        (["--episodic_life", "--protocol=machado"], ""),
        (["--protocol=machado"], "--episodic_life"),
        (["--episodic_life"], "--protocol=machado"),
    ):
        file.write_text(in_file)
        config = parse([*words, f"--flagfile={file}"])
        assert protocol_values(config) == {**preset("protocol", "machado"), "episodic_life": True}


def test_a_default_that_is_given_beats_the_protocol_too() -> None:
    assert parse(["--protocol=machado", "--repeat_action_probability=0"]).environment.repeat_action_probability == 0


def test_the_command_line_beats_the_sweep_and_the_sweep_the_protocol() -> None:
    sweep = {"flags": {"protocol": "machado", "noop_threshold": 5}, "grid": {"episodic_life": [False, True]}}
    given = {"repeat_action_probability": 0.1}
    configs = [run.config for run in plan_sweep(sweep, given).runs]
    wanted = {**preset("protocol", "machado"), "noop_threshold": 5, "repeat_action_probability": 0.1}
    assert [protocol_values(config) for config in configs] == [
        {**wanted, "episodic_life": False}, {**wanted, "episodic_life": True},
    ]  # fmt: skip
    (run,) = plan_sweep({"flags": {"protocol": "machado", "noop_threshold": 5}}, {"protocol": "classic"}).runs
    assert protocol_values(run.config) == {**preset("protocol", "classic"), "noop_threshold": 5}


def test_a_protocol_is_kept_as_ordinary_flags() -> None:
    chosen = parse(["--protocol=machado", "--episodic_life"])
    saved = json.loads(json.dumps(chosen.flags()))
    assert Config.from_flags(saved) == chosen
    assert parse([], base=saved) == chosen
    assert parse(["--protocol=machado"], base=saved) == chosen, "the run has it already"
    assert protocol_values(parse(["--noepisodic_life"], base=saved)) == preset("protocol", "machado")


def test_runs_without_the_option_are_classic() -> None:
    older = {name: value for name, value in CLASSIC.flags().items() if name not in NEW}
    assert Config.from_flags(older) == CLASSIC
    assert merged(older, {}) == older
    assert parse(["--protocol=classic"], base={**older, "repeat_action_probability": 0.1}) == (
        CLASSIC.replace_flags(repeat_action_probability=0.1)
    )


NEW = {"protocol", "full_action_space", "fire_on_reset"}


@pytest.mark.parametrize(("before", "after"), [("classic", "machado"), ("machado", "classic")])
def test_another_protocol_sets_its_flags_anew(before: str, after: str) -> None:
    saved = parse([f"--protocol={before}", "--noop_threshold=3", "--lr=0.5"])
    for other in (
        parse([f"--protocol={after}"], base=saved.flags()),
        saved.replace_flags(protocol=after),
    ):
        assert protocol_values(other) == preset("protocol", after)
        assert other.optimizer.lr == 0.5


def test_a_module_before_an_id_changes_no_default() -> None:
    plain, named = (parse([f"--env={env}"]).flags() for env in ("ALE/Pong-v5", "ale_py:ALE/Pong-v5"))
    assert {name for name in plain if plain[name] != named[name]} == {"env"}


@pytest.mark.parametrize("env", ["CartPole-v1", "ALE/Pong-v5"])
def test_the_default_protocol_may_be_named_for_any_environment(env: str) -> None:
    assert parse([f"--env={env}", "--protocol=classic"]) == parse([f"--env={env}"])


def test_an_unknown_protocol_is_refused() -> None:
    assert sentence_of("--protocol=atari") == '--protocol must be one of classic, machado, not "atari".'
    with pytest.raises(UsageError, match=r"^--protocol must be one of classic, machado, not \[1\]\.$"):
        Config.from_flags({"protocol": [1]})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "classic protocol"),
        (["--protocol=machado"], "machado protocol"),
        (["--repeat_action_probability=0.25"], "classic protocol with --repeat_action_probability=0.25"),
        (
            ["--protocol=machado", "--episodic_life", "--nofull_action_space"],
            "machado protocol with --episodic_life --nofull_action_space",
        ),
    ],
)
def test_the_protocol_in_words(words: list[str], said: str) -> None:
    assert protocol_in_words(parse(words).environment) == said


def test_what_a_test_always_does_is_left_out() -> None:
    played = EnvironmentOptions(episodic_life=False)
    assert protocol_in_words(played) == "classic protocol with --noepisodic_life"
    assert protocol_in_words(played, leave_out=("episodic_life",)) == "classic protocol"


def weight(words: list[str]) -> float:
    return parse(words).loss.proximal_loss_weight


def test_impact_has_no_proximal_loss_unless_it_is_given() -> None:
    assert weight(["--loss=impact"]) == 0
    assert weight(["--loss=impact", "--proximal_loss_weight=0.05"]) == 0.05
    assert weight([]) == weight(["--loss=vtrace"]) == 0.05


@pytest.mark.parametrize("saved", [{"loss": "impact", "proximal_loss_weight": 0.05}, {"proximal_loss_weight": 0.2}])
def test_a_run_that_keeps_its_loss_keeps_the_weight(saved: dict[str, Any]) -> None:
    assert merged(saved, {"lr": 0.1}) == {**saved, "lr": 0.1}
    own = {"loss": saved.get("loss", VTRACE)}
    assert merged(saved, own) == {**saved, **own}


def test_a_run_that_goes_on_with_another_loss_gets_its_weight() -> None:
    assert merged({"proximal_loss_weight": 0.2}, {"loss": "impact"})["proximal_loss_weight"] == 0
    impact = {"loss": "impact", "proximal_loss_weight": 0.0}
    assert merged(impact, {"loss": "vtrace"})["proximal_loss_weight"] == 0.05
    assert merged(impact, {"loss": "vtrace", "proximal_loss_weight": 0.3})["proximal_loss_weight"] == 0.3
