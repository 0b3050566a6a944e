"""Requests whose browser has gone, and those without an answer for another reason."""

import asyncio
from typing import Any

import pytest
from starlette.middleware.base import BaseHTTPMiddleware

from dashboard.closed_connections import ClosedConnections

SCOPE: dict[str, Any] = {"type": "http", "path": "/", "headers": []}


async def answers_nothing(scope: Any, receive: Any, send: Any) -> None:
    """As an application does that notices that the browser has gone."""


async def fails(scope: Any, receive: Any, send: Any) -> None:
    raise RuntimeError("the disk is full")


async def pass_on(request: Any, call_next: Any) -> Any:
    return await call_next(request)


def request(inner: Any, *, closed: bool) -> list[Any]:
    """The answer to a request whose connection is closed, or open and silent."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        if not closed:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    app = ClosedConnections(BaseHTTPMiddleware(inner, pass_on))
    asyncio.run(app(SCOPE, receive, send))
    return sent


def test_a_closed_page_needs_no_answer() -> None:
    assert request(answers_nothing, closed=True) == []


def test_an_open_page_without_an_answer_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="No response returned"):
        request(answers_nothing, closed=False)


@pytest.mark.parametrize("closed", [False, True])
def test_other_errors_stay_errors(closed: bool) -> None:
    with pytest.raises(RuntimeError, match="the disk is full"):
        request(fails, closed=closed)
