"""The agent card, for whoever may see it."""

from __future__ import annotations

import json
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from server.protocol.card import etag, merged_card
from server.protocol.errors import A2AError
from server.protocol.model import Card
from server.transport.calls import Calls
from server.transport.rest import refusal

PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
MAX_AGE_S = 60


class Cards:
    """Serves one card to clients of both versions, under the current and the deprecated path."""

    def __init__(self, calls: Calls, card: Callable[[], Card], *, public: bool) -> None:
        self._calls = calls
        self._card = card
        self._public = public
        self._rendered: tuple[Card, bytes, str] | None = None

    def routes(self) -> list[Route]:
        return [Route(path, self.card) for path in PATHS]

    async def card(self, request: Request) -> Response:
        if not self._public:
            try:
                await self._calls.caller(request.scope["headers"])
            except A2AError as error:
                return refusal(error)
        body, tag = self._render()
        scope = "public" if self._public else "private"
        headers = {"ETag": tag, "Cache-Control": f"{scope}, max-age={MAX_AGE_S}"}
        if not self._public:
            headers["Vary"] = "Authorization, X-Api-Key"
        if _matches(request.headers.get("if-none-match"), tag):
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type="application/json")

    def _render(self) -> tuple[bytes, str]:
        card = self._card()
        if self._rendered is None or self._rendered[0] is not card:
            document = merged_card(card)
            self._rendered = (card, json.dumps(document, ensure_ascii=False).encode(), etag(document))
        return self._rendered[1], self._rendered[2]


def _matches(wanted: str | None, tag: str) -> bool:
    if wanted is None:
        return False
    tags = [item.strip().removeprefix("W/") for item in wanted.split(",")]
    return "*" in tags or tag.removeprefix("W/") in tags
