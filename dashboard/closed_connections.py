"""A browser that closes a page during its request is no error of the server."""

from starlette.requests import Request

from dashboard.access import App, Receive, Scope, Send

NO_RESPONSE = "No response returned."  # the words of Starlette


class ClosedConnections:
    """Wraps a web application. Nothing is raised for a request without an answer if nobody waits for the answer."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except RuntimeError as error:
            if str(error) != NO_RESPONSE or not await Request(scope, receive).is_disconnected():
                raise
