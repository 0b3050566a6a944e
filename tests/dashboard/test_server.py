"""Who may see the page."""

import asyncio
from collections.abc import MutableMapping
from contextlib import nullcontext
from typing import Any

import pytest

pytest.importorskip("nicegui")

from dashboard.__main__ import is_loopback
from dashboard.server import COOKIE, Guard, guards

TOKEN = "a-secret-word"


async def inner(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"page"})


def answer(
    token: str | None, headers: dict[str, str], query: str = "", kind: str = "http", path: str = "/",
    own: str = "127.0.0.1",
) -> Any:  # fmt: skip
    """The messages that a request is answered with."""
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "websocket.connect"}

    scope = {
        "type": kind, "path": path, "query_string": query.encode(), "extensions": {"websocket.http.response": {}},
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    app: Any = inner
    for layer in reversed(guards(own, token)):
        app = layer.cls(app, *layer.args, **layer.kwargs)
    asyncio.run(app(scope, receive, send))
    return sent


@pytest.mark.parametrize("host", ["127.0.0.1:8050", "localhost:8050", "[::1]:8050", "LOCALHOST"])
def test_this_machine_needs_no_token(host: str) -> None:
    assert answer(None, {"host": host})[0]["status"] == 200


@pytest.mark.parametrize("host", ["evil.example:8050", "192.168.1.3:8050", "", "127.0.0.1.evil.example", "["])
def test_other_names_of_this_machine_are_refused(host: str) -> None:
    """A page of the internet could otherwise read results through a name that it lets lead to 127.0.0.1."""
    assert answer(None, {"host": host})[0]["status"] == 400
    assert answer(TOKEN, {"host": host, "origin": f"http://{host}"})[0]["status"] == 403


def test_another_address_of_this_machine_can_be_chosen() -> None:
    assert answer(None, {"host": "127.8.9.1:8050"}, own="127.8.9.1")[0]["status"] == 200
    assert answer(None, {"host": "[::1]:8050"}, own="::1")[0]["status"] == 200


@pytest.mark.parametrize("token", [None, TOKEN])
def test_requests_of_pages_of_other_sites_are_refused(token: str | None) -> None:
    headers = {"host": "127.0.0.1:8050", "cookie": f"{COOKIE}={TOKEN}", "origin": "http://127.0.0.1:9999"}
    assert answer(token, headers)[0]["status"] == 403
    assert answer(token, {**headers, "origin": "http://127.0.0.1:8050"})[0]["status"] == 200


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({}, ""),
        ({}, "token=wrong"),
        ({"cookie": f"{COOKIE}=wrong"}, ""),
        ({"cookie": f"other={TOKEN}"}, ""),
        ({"cookie": f"{COOKIE}={TOKEN}"}, "token=wrong"),
    ],
)
def test_without_the_token_nothing_is_shown(kind: str, headers: dict[str, str], query: str) -> None:
    start, body = answer(TOKEN, {"host": "127.0.0.1:8050", **headers}, query, kind)
    assert start["type"].startswith(kind) and start["status"] == 403 and b"token" in body["body"]


def test_the_token_moves_from_the_address_into_a_cookie() -> None:
    start, _ = answer(TOKEN, {"host": "machine:8050"}, f"token={TOKEN}", path="/run/a b")
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    assert (start["status"], headers["location"]) == (303, "/run/a%20b")
    assert headers["set-cookie"].startswith(f"{COOKIE}={TOKEN};")
    assert "HttpOnly" in headers["set-cookie"] and "SameSite=strict" in headers["set-cookie"]
    assert answer(TOKEN, {"host": "machine:8050", "cookie": f"a=b; {COOKIE}={TOKEN}"})[0]["status"] == 200


def test_the_token_leads_to_no_other_site() -> None:
    start, _ = answer(TOKEN, {"host": "machine:8050"}, f"token={TOKEN}", path="//evil.example/")
    assert dict(start["headers"])[b"location"] == b"/evil.example/"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("192.168.0.5", False), ("machine", False)],
)  # fmt: skip
def test_addresses_that_only_this_machine_reaches(host: str, loopback: bool) -> None:
    assert is_loopback(host) == loopback


@pytest.mark.parametrize(("words", "is_quiet"), [("No response returned.", True), ("something else", False)])
def test_a_browser_that_has_gone_is_no_error(words: str, is_quiet: bool) -> None:
    async def fail(*_: object) -> Any:
        raise RuntimeError(words)

    request = Guard(fail, None)({"type": "http", "headers": []}, fail, fail)
    with nullcontext() if is_quiet else pytest.raises(RuntimeError, match=words):
        asyncio.run(request)
