"""The configuration of a run: which options differ from their defaults."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nicegui")

from dashboard.results import Results
from option_flags import Config, defaults_beside
from reports.hints import changed_options
from tests.dashboard.some_runs import write_run

CHANGED = {"seed": 1, "environment_max_steps": 20_000, "report_period": 1000}  # of every run that is written here


@pytest.mark.parametrize(
    ("flags", "changed"),
    [
        ({}, {}),
        ({"env": "CartPole-v1"}, {"env": "CartPole-v1"}),
        ({"env": "CartPole-v1", "skipped_frames": 4}, {"env": "CartPole-v1", "skipped_frames": 4}),
        ({"protocol": "machado"}, {"protocol": "machado"}),
        ({"protocol": "machado", "fire_on_reset": True}, {"protocol": "machado", "fire_on_reset": True}),
        ({"loss": "impact"}, {"loss": "impact"}),
        ({"slots_per_worker": 1}, {"slots_per_worker": 1}),
    ],
)
def test_options_that_nobody_changed_have_their_defaults(
    tmp_path: Path, flags: dict[str, Any], changed: dict[str, Any]
) -> None:
    folder = write_run(tmp_path / "run", machine={"device": "cpu", "slots_per_worker": 2}, **flags)
    data = Results(tmp_path).reader(folder)
    data.refresh()
    options = data.config["options"]
    defaults = defaults_beside(options)
    found = {name: value for name, value in options.items() if value != defaults[name]}
    assert found == {**CHANGED, **changed} == changed_options(Config.from_flags(options))
    assert data.history.options["slots_per_worker"] == 2, "in comparisons, the number that the run chose counts"


def test_options_of_other_versions_have_no_default() -> None:
    defaults = defaults_beside({"env": 3, "protocol": None, "loss": [], "older_option": 4})
    assert "older_option" not in defaults and defaults["skipped_frames"] == 4
