"""Who may see the page: this machine only, or whoever knows the token."""

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import SimpleCookie
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "dashboard_token"


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach the address."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """Wraps a web application.

    Without a token, a request must name a loopback address as its host, so that no page of the internet can read
    results through a name that leads to this machine. With a token, a request must carry it: once in the address,
    from then on in a cookie. Requests that a page of another site makes are refused in both cases.
    """

    def __init__(self, app: App, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        given = query.get("token")
        refusal = self._refusal(headers, given)
        if refusal:
            await _refuse(scope, receive, send, refusal)
        elif self._token and given is not None and scope["type"] == "http":
            await _set_cookie(send, scope, given)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, headers: dict[str, str], given: str | None) -> str | None:
        host = headers.get("host", "")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return "This request comes from a page of another site."
        if self._token is None:
            name = urlsplit(f"//{host}").hostname or ""
            return None if is_loopback(name) else "Open the page as http://127.0.0.1 or http://localhost."
        known = given if given is not None else _cookie(headers.get("cookie", ""))
        if known is not None and hmac.compare_digest(known.encode(), self._token.encode()):
            return None
        return "This page needs its token: open the address that `python -m dashboard` printed."


def _cookie(header: str) -> str | None:
    """The token. Other programs of the same host set cookies too, and SimpleCookie reads none if one is not valid."""
    cookies = (pair.strip().partition("=") for pair in header.split(";"))
    return next((value for name, _, value in cookies if name == COOKIE), None)


async def _refuse(scope: Scope, receive: Receive, send: Send, sentence: str) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": f"{sentence}\n".encode()})


async def _set_cookie(send: Send, scope: Scope, token: str) -> None:
    """Keep the token in a cookie, and send the browser to the same address without it."""
    cookie = SimpleCookie({COOKIE: token})
    for name, value in (("httponly", True), ("samesite", "Strict"), ("path", "/")):
        cookie[COOKIE][name] = value
    headers = [
        (b"location", f"/{quote(scope['path'].lstrip('/'))}".encode()),  # two slashes would lead to another host
        (b"set-cookie", cookie[COOKIE].OutputString().encode()),
        (b"referrer-policy", b"no-referrer"),
    ]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
