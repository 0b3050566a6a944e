"""The web server: its pages, the files that it gives out, and who may see them."""

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from nicegui import app, ui
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response

from dashboard import children
from dashboard.access import guards
from dashboard.compare_page import compare_page, sweep_page
from dashboard.list_page import list_page
from dashboard.results_folder import NotThereError, ResultsFolder, printable
from dashboard.run_list import RunList
from dashboard.run_page import run_page
from run_files.run_folder import VIDEOS

NICENESS = 5  # runs go first
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#0072B2"/>'
    '<path d="M3 12l3.5-4 2.5 2 4-6" fill="none" stroke="#fff" stroke-width="1.8" stroke-linecap="round"/></svg>'
)


def serve(folder: Path, host: str, port: int, token: str | None) -> None:
    """Serve the results folder until CTRL+C."""
    os.nice(NICENESS)
    results = ResultsFolder(folder)
    run_list = RunList(results)
    ui.page("/")(list_page(results, run_list))
    ui.page("/run/{name:path}")(run_page(results, run_list))
    ui.page("/sweep/{name:path}")(sweep_page(results, run_list))
    ui.page("/compare")(compare_page(results, run_list))
    app.add_route("/video/{name:path}", video(results))
    app.on_startup(lambda: stand_guard(host, token))
    shown_host = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    address = f"http://{shown_host}:{port}/" + (f"?token={token}" if token else "")
    elsewhere = "" if shown_host == host else "; on other machines, with the name of this one in place of 127.0.0.1"
    app.on_startup(lambda: print(f"runs in {printable(results.root)}: {address} (CTRL+C ends){elsewhere}", flush=True))
    app.on_shutdown(children.kill_all)
    with suppress(KeyboardInterrupt):  # the server ends in good order, and then raises it again
        ui.run(
            host=host,
            port=port,
            title="rl-platform",
            favicon=ICON,
            dark=None,
            show=False,
            reload=False,
            show_welcome_message=False,
            # Of each page, for a lost connection; pictures of the live agent are among them.
            message_history_length=100,
        )


def stand_guard(host: str, token: str | None) -> None:
    """Called at the start, when NiceGUI has added its own layers: the guards stand before these."""
    app.user_middleware[:0] = guards(host, token)
    app.middleware_stack = app.build_middleware_stack()


def video(results: ResultsFolder) -> Callable[[Request], Awaitable[Response]]:
    """Gives out the films of runs, and nothing else."""

    async def answer(request: Request) -> Response:
        try:
            path = results.place(request.path_params["name"])
        except NotThereError as error:
            return PlainTextResponse(str(error), 404)
        if path.suffix != ".mp4" or path.parent.name != VIDEOS or not path.is_file():
            return PlainTextResponse("Only the films of runs are given out.", 404)
        return FileResponse(path, media_type="video/mp4")

    return answer
