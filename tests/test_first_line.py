"""What main.py says at once, before it loads its libraries."""

import pytest

import main
from option_flags import Config


def test_without_flags_it_says_what_it_does_and_for_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "usable_cores", lambda: 2)
    assert main.first_line({}, Config()) == (
        "training on PongNoFrameskip-v4 for 6,000,000 agent steps; CTRL+C saves the run and ends it. This takes about "
        "50 minutes on 2 cores without a GPU, and less with one; --help shows what else there is"
    )


def test_with_flags_it_says_what_it_does() -> None:
    given = {"env": "CartPole-v1", "environment_max_steps": 5000}
    line = "training on CartPole-v1 for 5,000 agent steps; CTRL+C saves the run and ends it"
    assert main.first_line(given, Config.from_flags(given)) == line
    for mode, doing in (("test", "testing"), ("train_w_load", "starting from")):
        assert main.first_line({"op_mode": mode, "load_model_url": "results/x"}, None) == f"{doing} results/x"
