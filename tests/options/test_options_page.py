"""docs/options.md."""

from pathlib import Path

from tests.options.options_page import options_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "options.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == options_page(), (
        "run python -m tests.options.options_page > docs/options.md"
    )
