"""Who may see the page: this machine only, or whoever knows the token."""

import hmac
from ipaddress import ip_address
from urllib.parse import quote

from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

COOKIE = "dashboard_token"
THIS_MACHINE = ("127.0.0.1", "localhost", "[::1]")
NO_RESPONSE = "No response returned."  # the words of Starlette


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach the address."""
    try:
        return host.lower() == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def guards(host: str, token: str | None) -> list[Middleware]:
    """What stands before the pages, the outermost first.

    Without a token, a request must name this machine as its host: no page of the internet can read results through a
    name that it lets lead to this machine.
    """
    own = f"[{host}]" if ":" in host else host
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[*THIS_MACHINE, own], www_redirect=False)
    return [Middleware(ClosedConnections), *([] if token else [hosts]), Middleware(Guard, token=token)]


class Guard:
    """Lets nobody in without the token: once in the address, from then on in a cookie. Nor pages of another site."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            answer = self._answer(HTTPConnection(scope))
            if answer is not None:
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

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


class ClosedConnections:
    """Nothing is raised for a request without an answer if its browser has gone, and nobody waits for the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except RuntimeError as error:
            if str(error) != NO_RESPONSE or not await Request(scope, receive).is_disconnected():
                raise
