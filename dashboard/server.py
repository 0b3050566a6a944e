"""The web server: its pages, the files that it gives out, and who may see them."""

import hmac
import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import quote

from nicegui import app, ui
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import FileResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboard.comparison import ComparisonView
from dashboard.list_page import ListView
from dashboard.page_parts import show_page
from dashboard.results import PageError, Results
from dashboard.run_page import RunView, may_download
from options.rules import counted

NICENESS = 5  # runs go first
COOKIE = "dashboard_token"
THIS_MACHINE = ("127.0.0.1", "localhost", "[::1]")
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#0072B2"/>'
    '<path d="M3 12l3.5-4 2.5 2 4-6" fill="none" stroke="#fff" stroke-width="1.8" stroke-linecap="round"/></svg>'
)


def serve(folder: Path, host: str, port: int, token: str | None) -> None:
    """Serve the results folder until CTRL+C."""
    os.nice(NICENESS)
    results = Results(folder)
    ui.page("/")(lambda: show_page(f"runs in {results.shown_root}", ListView(results).build))
    ui.page("/run/{name:path}")(lambda name: show_page(name, RunView(results, name).build))
    ui.page("/sweep/{name:path}")(lambda name: show_page(f"sweep {name}", ComparisonView(results, sweep=name).build))

    @ui.page("/compare")
    async def compare(request: Request) -> None:
        names = list(dict.fromkeys(request.query_params.getlist("run")))
        await show_page(f"{counted(len(names), 'run')} compared", ComparisonView(results, names).build)

    app.add_route("/file/{name:path}", partial(give_file, results))
    app.on_startup(lambda: stand_guard(host, token))
    shown_host = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    address = f"http://{shown_host}:{port}/" + (f"?token={token}" if token else "")
    elsewhere = "" if shown_host == host else "; on other machines, with the name of this one in place of 127.0.0.1"
    app.on_startup(lambda: print(f"runs in {results.shown_root}: {address} (CTRL+C ends){elsewhere}", flush=True))
    with suppress(KeyboardInterrupt):  # the server ends in good order, and then raises it again
        ui.run(
            host=host,
            port=port,
            title="rl-platform",
            language="en-US",
            favicon=ICON,
            dark=None,
            show=False,
            reload=False,
            show_welcome_message=False,
            # Of each page, for a lost connection; pictures of the live agent are among them.
            message_history_length=100,
        )


async def give_file(results: Results, request: Request) -> Response:
    """Gives out the files that the pages of runs offer, and no others."""
    try:
        path = results.place(request.path_params["name"])
    except PageError as error:
        return PlainTextResponse(str(error), 404)
    if not (may_download(path) and path.is_file()):
        return PlainTextResponse("Only figures, checkpoints and films of runs are given out.", 404)
    return FileResponse(path, filename=path.name)  # to be kept, not shown


def stand_guard(host: str, token: str | None) -> None:
    """Called at the start, when NiceGUI has added its own layers: the guards stand before these."""
    app.user_middleware[:0] = guards(host, token)
    app.middleware_stack = app.build_middleware_stack()


def guards(host: str, token: str | None) -> list[Middleware]:
    """What stands before the pages, the outermost first.

    Without a token, a request must name this machine as its host: no page of the internet can read results through a
    name that it lets lead to this machine.
    """
    own = f"[{host}]" if ":" in host else host
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[*THIS_MACHINE, own], www_redirect=False)
    return [*([] if token else [hosts]), Middleware(Guard, token=token)]


class Guard:
    """Lets nobody in without the token: once in the address, from then on in a cookie. Nor pages of another site."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._answer(HTTPConnection(scope)) if scope["type"] in ("http", "websocket") else None
        try:
            await (answer or self._app)(scope, receive, send)
        except RuntimeError as error:
            if str(error) != "No response returned.":  # Starlette's, when a browser leaves during its request
                raise

    def _answer(self, request: HTTPConnection) -> Response | None:
        """None for those who may see the page."""
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
            return PlainTextResponse("This request comes from a page of another site.\n", 403)
        if self._token is None:
            return None
        given = request.query_params.get("token")
        known = request.cookies.get(COOKIE, "") if given is None else given
        if not hmac.compare_digest(known.encode(), self._token.encode()):
            return PlainTextResponse(
                "This page needs its token: open the address that `python -m dashboard` printed.\n", 403
            )
        if given is None or request.scope["type"] == "websocket":
            return None
        # The same address without the token. Two slashes at its beginning would lead to another host.
        answer = RedirectResponse(f"/{quote(request.scope['path'].lstrip('/'))}", 303)
        answer.set_cookie(COOKIE, self._token, httponly=True, samesite="strict")
        answer.headers["referrer-policy"] = "no-referrer"
        return answer
