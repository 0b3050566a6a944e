"""The pages in a real browser: they load without an error, ask no outside host, and show what the files say."""

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from evaluation.film import HEIGHT, WIDTH, Film
from tests.dashboard.browser import Visitor, need_browser, serving, visiting
from tests.dashboard.some_runs import append_report, write_run, write_sweep

need_browser()
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # on a busy machine, every page takes seconds

SVG, PNG, ZOOM_BACK, ZOOM = range(4)  # the tools of a chart, from the right
RETURNS, ENTROPY = "Return of full games", "Entropy of the policy, nats"
ATTACK = """x" onclick="attack()" x="<img src=x onerror=attack()>');attack();//{{ attack() }}"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results")
    write_run(root / "Pong_1", env="PongNoFrameskip-v4", lr=2e-4)
    # With reports so rare, it counts as at work for hours, however long the tests before take.
    write_run(root / "Pong_2", env="PongNoFrameskip-v4", seed=2, status="running", report_period=10**7)
    write_run(root / "Breakout_1", env="BreakoutNoFrameskip-v4", status="failed", why="the disk is full")
    write_run(root / "Seaquest_1", env="SeaquestNoFrameskip-v4", status="running", age=9000)
    write_sweep(root / "search", {f"run{i}": {"lr": lr, "seed": i} for i, lr in enumerate((1e-4, 1e-3, 1e-3))})
    (root / "broken").mkdir()
    (root / "broken" / "config.json").write_text("{")
    write_run(root / 'odd % "1', env="CartPole-v1", final_return=0.97)
    return root


@pytest.fixture(scope="module")
def address(results: Path) -> Iterator[str]:
    with serving(results) as address:
        yield address


@pytest.fixture
def visitor(browser: Any, address: str) -> Iterator[Visitor]:
    with visiting(browser, address) as visitor:
        yield visitor


def shown_runs(visitor: Visitor) -> dict[str, str]:
    """The names and states in the table."""
    rows = visitor.page.locator("tbody tr").all()
    cells = [[cell.inner_text().strip() for cell in row.locator("td").all()] for row in rows]
    return {row[1].partition("\n")[0]: row[2] for row in cells if len(row) > 2}


def test_the_list_shows_filters_searches_and_sorts_runs(visitor: Visitor) -> None:
    page = visitor.open("/")
    page.wait_for_selector("tbody a")
    states = shown_runs(visitor)
    assert {name: states[name] for name in states if "/" not in name} == {
        "Pong_1": "finished", "Pong_2": "at work", "Breakout_1": "failed", "Seaquest_1": "stopped",
        "broken": "unreadable", 'odd % "1': "finished",
    }  # fmt: skip
    assert "2 h ago" in page.locator("tr", has_text="Seaquest_1").inner_text()
    assert "lr 0.0002" in page.locator("tr", has_text="Pong_1").inner_text()
    assert "0.970" in page.locator("tr", has_text="odd").inner_text()
    page.get_by_label("search").fill("pong_")
    visitor.wait_until(lambda: set(shown_runs(visitor)) == {"Pong_1", "Pong_2"})
    page.get_by_label("search").fill("lr 0.0002")  # of what is said about a run
    visitor.wait_until(lambda: set(shown_runs(visitor)) == {"Pong_1"})
    page.get_by_label("search").fill("")
    page.locator("label", has_text="state").click()
    page.get_by_role("option", name="failed").click()
    visitor.wait_until(lambda: set(shown_runs(visitor)) == {"Breakout_1"})
    page.locator("label", has_text="state").click()
    page.get_by_role("option", name="all").click()
    visitor.wait_until(lambda: len(shown_runs(visitor)) == len(states))
    page.get_by_role("columnheader", name="mean return").click()
    visitor.wait_until(lambda: next(iter(shown_runs(visitor))) == "broken")
    page.get_by_role("link", name='odd % "1').click()
    visitor.wait_for_chart(RETURNS)


def test_curves_grow_with_the_files_keep_their_zoom_and_say_what_is_wrong(visitor: Visitor, results: Path) -> None:
    folder = write_run(results / "Growing_1", reports=0, games=30, status="running", environment_max_steps=10**6)
    page = visitor.open("/run/Growing_1")
    page.get_by_role("tab", name="Machine").click()
    page.get_by_text("There is no report yet").wait_for()
    for number in range(1, 21):
        append_report(folder, number)
    page.get_by_role("tab", name="Replays").click()
    visitor.wait_for_chart("Unrolls in each replay")
    page.get_by_role("tab", name="Curves").click()
    # A chart that was hidden is drawn some time after its tab is shown.
    visitor.wait_until(lambda: len((visitor.chart(RETURNS) or [[], []])[-1]) == 20)

    card = page.locator("section.card", has=page.locator(f'[aria-label*="{RETURNS}"]'))
    box = card.locator("canvas").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    card.locator(".chart-tooltip", has_text="mean of the last 100 games").wait_for()
    visitor.tool(RETURNS, ZOOM)
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.6 * box["height"], steps=5)
    page.mouse.up()

    def zoomed() -> bool:
        script = """() => getElement(Number(document.querySelector('.nicegui-echart').id.slice(1)))
            .chart.getOption().dataZoom.some(zoom => zoom.end < 99)"""
        return bool(page.evaluate(script))

    visitor.wait_until(zoomed)
    append_report(folder, 21)
    visitor.wait_until(lambda: len(visitor.chart(RETURNS)[1]) == 21)
    assert zoomed()
    visitor.tool(RETURNS, ZOOM_BACK)
    visitor.wait_until(lambda: not zoomed())
    page.get_by_text("time", exact=True).click()
    visitor.wait_until(lambda: visitor.chart(RETURNS)[1][-1][0] == pytest.approx(21 / 60, rel=1e-4))
    shutil.rmtree(folder)
    page.get_by_text("The folder of this run has been deleted.").wait_for()
    assert len(visitor.chart(RETURNS)[1]) == 21
    page.reload()
    page.get_by_text("There is no Growing_1 in").wait_for()


def test_every_tab_of_a_run_shows_its_files(visitor: Visitor, results: Path) -> None:
    folder = results / "search" / "run0" / "Run_0"
    for name in ("videos", "checkpoints"):
        (folder / name).mkdir()
    (folder / "checkpoints" / "checkpoint_0000000007.pt").write_bytes(b"x")
    with (folder / "videos" / "game.mp4").open("wb") as file, Film(file) as film:
        for shade in range(0, 240, 2):
            film.add(np.full((HEIGHT, WIDTH, 3), shade, np.uint8))
    page = visitor.open("/run/search/run0/Run_0")
    visitor.wait_for_chart(RETURNS)
    page.get_by_label("search all figures").fill("steps_per")
    visitor.wait_for_chart("steps_per_second")
    assert not page.locator(f'[aria-label*="{ENTROPY}"]').is_visible()
    card = page.locator("section.card", has=page.locator('[aria-label*="steps_per_second"]'))
    card.get_by_role("button", name="numbers").focus()
    page.keyboard.press("Enter")
    assert card.locator("tr").last.inner_text().split() == ["20000", "1000"]
    page.get_by_role("tab", name="Machine").click()
    assert len(visitor.wait_for_chart("Time of the learner")) == 2
    page.get_by_role("tab", name="Replays").click()
    assert visitor.wait_for_chart("Distance")[1][-1] == [20_000, 2]
    page.get_by_role("tab", name="Configuration").click()
    page.locator(".option.differs", has_text="lr").first.wait_for()
    bold = {row.locator(".key").inner_text() for row in page.locator(".option.differs").all()}
    assert bold == {"lr", "seed", "environment_max_steps", "report_period"}
    page.get_by_text("skipped_frames", exact=True).hover()
    # Not by its default alone: the mouse may have crossed another option, whose tooltip takes a moment to vanish.
    page.locator(".q-tooltip", has_text="Game frames per agent step").filter(has_text="Default: 4.").wait_for()
    page.get_by_role("tab", name="Console").click()
    page.get_by_text("starting 2 workers").wait_for()
    page.get_by_text("python main.py --seed=20").wait_for()
    page.get_by_role("tab", name="Agent").click()
    page.get_by_role("button", name="Play").click()
    page.get_by_text("checkpoint_0000000007.pt is cut off, damaged").wait_for()
    page.get_by_label("notes").fill("the first one")
    page.get_by_role("tab", name="Files").click()
    visitor.wait_until((folder / "notes.txt").exists)
    assert (folder / "notes.txt").read_text() == "the first one"
    for name in ("metrics.jsonl", "checkpoint_0000000007.pt", "game.mp4"):
        with page.expect_download() as download:
            page.get_by_role("link", name=name).click()
        (path,) = folder.rglob(name)
        assert Path(download.value.path()).read_bytes() == path.read_bytes()
    page.evaluate("() => { const video = document.querySelector('video'); video.muted = true; return video.play(); }")
    visitor.wait_until(lambda: page.evaluate("() => document.querySelector('video').currentTime") > 0.3)
    assert page.evaluate("() => document.querySelector('video').videoWidth") == WIDTH


def test_runs_are_compared_and_charts_are_saved(visitor: Visitor, results: Path) -> None:
    page = visitor.open("/")
    for name in ("Pong_1", "Pong_2"):
        page.locator("tr", has_text=name).get_by_role("checkbox").click()
    page.get_by_role("button", name="Compare 2 runs").click()
    lines = visitor.wait_for_chart("Pong, mean return")
    assert [line[-1] for line in lines] == [[20_000, 18], [20_000, 18]]
    page.get_by_text("lr 0.0002").first.wait_for()

    page = visitor.open("/sweep/search")
    lines = visitor.wait_for_chart("Pong, mean return")
    assert len(lines) == 4, "a line, and a line with a band of two"
    page.get_by_text("each run alone").click()
    lines = visitor.wait_for_chart("Pong, mean return of each run")
    assert sorted(line[-1][1] for line in lines) == [10, 11, 12]
    page.get_by_text("each run alone").click()
    visitor.wait_for_chart("Pong, mean return")
    points = [{"name": f"search/run{i}/Run_{i}", "value": [lr, 10 + i]} for i, lr in enumerate((1e-4, 1e-3, 1e-3))]
    assert visitor.wait_for_chart("Options and mean return of each run") == [points]
    page.get_by_text("3 done").wait_for()
    first = page.locator("tbody tr").first.inner_text()
    assert "lr 0.001, 2 seeds" in first and "11.5" in first
    for tool, begin in ((PNG, b"\x89PNG"), (SVG, b"<svg")):
        with page.expect_download() as download:
            visitor.tool("Pong, mean return", tool)
        content = Path(download.value.path()).read_bytes()
        assert content.startswith(begin) and len(content) > 2000
    assert "Pong, mean return" in content.decode() and "lr 0.001, 2 seeds" in content.decode()

    folders = [write_run(results / f"Later_{i}", seed=i, reports=0, games=0, status="running",
                         environment_max_steps=10**6) for i in (1, 2)]  # fmt: skip
    page = visitor.open("/compare?run=Later_1&run=Later_2")
    page.get_by_text("lr 0.001").or_(page.get_by_text("2 seeds")).first.wait_for()
    for folder in folders:
        append_report(folder, 1)
    page.get_by_label("figure").click()
    page.get_by_role("option", name="entropy", exact=True).click()
    visitor.wait_for_chart("Pong, entropy")
    for folder in folders:
        shutil.rmtree(folder)


def test_pages_fit_narrow_and_wide_screens_in_light_and_dark(browser: Any, address: str) -> None:
    for width, scheme in ((420, "light"), (1400, "dark")):
        with visiting(browser, address, width, scheme) as visitor:
            charts = {"/run/Pong_1": RETURNS, "/sweep/search": "Pong, mean return"}
            for path in ("/", *charts, "/run/broken", "/run/nothing"):
                page = visitor.open(path)
                page.locator(".facts:visible, .q-table:visible, .notice:visible").first.wait_for()
                if path in charts:
                    visitor.wait_for_chart(charts[path])
                fits = f"() => document.scrollingElement.scrollWidth <= {width}"
                visitor.wait_until(partial(page.evaluate, fits))  # the layout settles after its parts are shown
                background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
                assert (sum(map(int, background.strip("rgb()").split(","))) < 200) == (scheme == "dark"), path
                assert page.evaluate("() => document.documentElement.lang") == "en-US"


@pytest.mark.parametrize("width", [420, 1400])
def test_long_names_are_shown_as_a_whole_below_a_comparison(browser: Any, tmp_path: Path, width: int) -> None:
    many = [write_run(tmp_path / f"run{i}", env_kwargs=json.dumps({f"key{i}_{k}": 1 / (i + 3) for k in range(5)}))
            for i in range(6)]  # fmt: skip
    with serving(tmp_path) as address, visiting(browser, address, width) as visitor:
        visitor.open("/compare?" + "&".join(f"run={run.name}" for run in many))
        visitor.wait_for_chart("Pong, mean return")
        chart = "getElement(Number(document.querySelector('.nicegui-echart').id.slice(1))).chart"
        size = visitor.page.evaluate(f"() => [{chart}.getWidth(), {chart}.getHeight()]")
        texts = visitor.page.evaluate(
            f"""() => {chart}.getZr().storage.getDisplayList().filter(part => part.type == 'tspan').map(part => {{
                const box = part.getBoundingRect().clone();
                if (part.getComputedTransform()) box.applyTransform(part.getComputedTransform());
                return [part.style.text, box.x, box.y, box.x + box.width, box.y + box.height]; }})"""
        )
    words = {word for text, *_ in texts for word in text.split()}
    assert {f'"key{i}_{k}":' for i in range(6) for k in range(5)} <= words | {word[1:] for word in words}
    names = [box for text, *box in texts if "key" in text]
    axis = next(box for text, *box in texts if text == "agent steps")
    for left, top, right, bottom in names:
        assert left >= 0 and right <= size[0] and top >= axis[1] and bottom <= size[1]


def test_text_of_users_files_is_only_shown_and_nothing_is_written(browser: Any, tmp_path: Path) -> None:
    write_attacked_sweep(tmp_path / "sweep")

    def state() -> dict[str, tuple[int, int]]:
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(tmp_path.rglob("*"))}

    before = state()
    with serving(tmp_path) as address, visiting(browser, address) as visitor:
        look_everywhere(visitor)
    assert state() == before


def write_attacked_sweep(sweep: Path) -> None:
    """A sweep with a run of which everything that others can write is `ATTACK`."""
    name = f"run {ATTACK}".replace("/", "")
    write_sweep(sweep, {name.replace("run", "job"): {"lr": 1e-4}})
    folder = write_run(sweep / name, why=ATTACK, status="failed")
    config = json.loads((folder / "config.json").read_text())
    config["options"] |= dict.fromkeys(("env", "network", "optimizer", ATTACK), ATTACK)
    (folder / "config.json").write_text(json.dumps({**config, "machine": {ATTACK: ATTACK}}))
    (folder / "messages.txt").write_text(ATTACK)
    checkpoint = f"checkpoint_{ATTACK}.pt".replace("/", "")
    for written in (f"checkpoints/{checkpoint}", f"videos/{name}.mp4"):
        (folder / written).parent.mkdir(exist_ok=True)
        (folder / written).write_text("empty")
    with (folder / "metrics.jsonl").open("a") as file:
        line = {"agent_steps": 21_000, "seconds": 21, "frames": 84_000, ATTACK: 1, "time_shares": {ATTACK: 0.5},
                "replays": {f"0_{ATTACK}": {"size": 1}}}  # fmt: skip
        file.write(json.dumps(line) + "\n")


def look_everywhere(visitor: Visitor) -> None:
    """Open each page and each tab, and check that no text has become a script or an attribute."""
    page, run = visitor.page, quote("sweep/" + f"run {ATTACK}".replace("/", ""))
    page.add_init_script("window.attack = () => { window.attacked = true }")

    def nothing_ran() -> None:
        assert not page.evaluate("() => Boolean(window.attacked)")
        assert page.locator("[onclick], [onerror], img[src=x]").count() == 0

    visitor.open("/").wait_for_selector("tbody a")
    nothing_ran()
    visitor.open(f"/run/{run}")
    visitor.wait_for_chart(RETURNS)
    page.get_by_text(ATTACK).first.wait_for()
    for tab, title in {"Machine": "Time of the learner", "Replays": "Unrolls in each replay"}.items():
        page.get_by_role("tab", name=tab).click()
        visitor.wait_for_chart(title)
        nothing_ran()
    for tab, text in {"Configuration": ATTACK, "Console": ATTACK, "Files": "metrics.jsonl", "Agent": "Play"}.items():
        page.get_by_role("tab", name=tab).click()
        page.locator(".q-tab-panel:visible", has_text=text).first.wait_for()
        nothing_ran()
    visitor.open(f"/compare?run={run}&run={quote(ATTACK)}")
    page.locator(".notice:visible").first.wait_for()
    nothing_ran()
    visitor.open("/sweep/sweep").locator("tbody tr").first.wait_for()
    nothing_ran()


def test_no_other_file_is_given_out_and_nothing_without_the_token(results: Path, address: str) -> None:
    def status(address: str) -> int:
        with suppress(urllib.error.HTTPError), urllib.request.urlopen(address) as answer:
            return int(answer.status)
        return 0

    root = address.rstrip("/")
    assert status(f"{root}/file/Pong_1/metrics.jsonl") == 200
    for path in ("Pong_1/messages.txt", "../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "Pong_1/videos",
                 "search/sweep.json"):  # fmt: skip
        assert status(f"{root}/file/{path}") == 0, path
    with serving(results, "--token=open-sesame") as secret:
        plain, _, query = secret.partition("?")
        assert query == "token=open-sesame"
        assert status(plain) == 0
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        for asked in (secret, plain):  # now with the cookie
            with opener.open(asked) as answer:
                assert (answer.status, answer.url) == (200, plain)
