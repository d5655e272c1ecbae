"""Asks a language model, over any OpenAI-compatible API, which commands a message stands for."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Any

import httpx

from server.dialogue.commands import CannotHandle, Command, Failure, SetSlot, StartFlow
from server.dialogue.generate.keyword import KeywordGenerator
from server.dialogue.generate.lines import read_lines
from server.dialogue.generate.models import LLMSettings, Model
from server.dialogue.generate.prompt import SYSTEM, describe
from server.dialogue.generate.situation import Situation

logger = logging.getLogger("nonstick.dialogue")

MAX_ANSWER_BYTES = 64_000
_AGAIN = frozenset({429, 502, 503, 504})
_FIRST_PAUSE = 0.25
_MAX_RETRY_AFTER = 2.0


class ModelFailed(Exception):
    """This model gave no usable answer; another one may."""


class LLMGenerator:
    """Asks the models in order; when none answers, keywords decide (or the turn fails, if so configured)."""

    def __init__(
        self,
        models: tuple[Model, ...],
        settings: LLMSettings,
        fallback: KeywordGenerator,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self._models = models
        self._settings = settings
        self._fallback = fallback
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._client: httpx.AsyncClient | None = None
        self.dropped_lines = 0

    async def generate(self, situation: Situation, text: str, flow: str | None = None) -> list[Command]:
        try:
            async with asyncio.timeout(self._settings.budget):
                answer = await self._ask_any(situation, text)
        except (ModelFailed, TimeoutError) as error:
            logger.warning("dialogue.llm.failed", extra={"reason": str(error) or "the time is up"})
            if self._settings.on_error == "fail":
                return [Failure("command_generation_failed", {"reason": "no language model answered"})]
            return await self._fallback.generate(situation, text, flow)
        commands, dropped = read_lines(answer)
        self.dropped_lines += dropped
        if dropped:
            logger.info("dialogue.llm.lines_dropped", extra={"count": dropped})
        if flow is not None:
            return [StartFlow(flow), *(command for command in commands if isinstance(command, SetSlot))]
        return commands or [CannotHandle()]

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _ask_any(self, situation: Situation, text: str) -> str:
        question = describe(situation, text, self._settings.history_turns)
        if self._settings.log_prompts:
            logger.debug("dialogue.llm.prompt", extra={"prompt": question})
        reasons: list[str] = []
        for model in self._models:
            started = perf_counter()
            try:
                answer = await self._ask(model, question)
            except ModelFailed as error:
                reasons.append(f"{model.name}: {error}")
                continue
            logger.info(
                "dialogue.llm.answered",
                extra={
                    "model": model.name,
                    "prompt_characters": len(question),
                    "answer_characters": len(answer),
                    "seconds": round(perf_counter() - started, 3),
                },
            )
            return answer
        raise ModelFailed("; ".join(reasons) or "no model is configured")

    async def _ask(self, model: Model, question: str) -> str:
        body = {
            "model": model.name,
            "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}],
            "temperature": model.temperature,
            "max_tokens": model.max_tokens,
            "stream": False,
        }
        for attempt in range(self._settings.retries + 1):
            last = attempt == self._settings.retries
            pause = _FIRST_PAUSE * 2**attempt * (1 + self._rng.random() / 4)
            try:
                response = await self._post(model, body)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if last:
                    raise ModelFailed(f"can't be reached ({type(error).__name__})") from error
                await self._sleep(pause)
                continue
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise ModelFailed(f"did not answer ({type(error).__name__})") from error
            if response.status_code in _AGAIN and not last:
                await self._sleep(_retry_after(response, pause))
                continue
            return _content(response)
        raise ModelFailed("was tried too often")

    async def _post(self, model: Model, body: dict[str, Any]) -> httpx.Response:
        settings = self._settings
        if self._client is None:
            self._client = httpx.AsyncClient(follow_redirects=False)
        timeout = httpx.Timeout(model.timeout or settings.read_timeout, connect=settings.connect_timeout)
        headers, parameters = dict(model.headers), dict(model.parameters)
        async with self._client.stream(
            "POST", model.url, json=body, headers=headers, params=parameters or None, timeout=timeout
        ) as response:
            content = b""
            async for piece in response.aiter_bytes():
                content += piece
                if len(content) > MAX_ANSWER_BYTES:
                    raise ModelFailed("answered too much")
        return httpx.Response(response.status_code, headers=_plain_headers(response), content=content)


def _plain_headers(response: httpx.Response) -> dict[str, str]:
    # the body is decoded already, so its encoding must not be announced again
    kept = {"retry-after", "content-type"}
    return {name: value for name, value in response.headers.items() if name.lower() in kept}


def _content(response: httpx.Response) -> str:
    if response.status_code != httpx.codes.OK:
        raise ModelFailed(f"answered with status {response.status_code}")
    try:
        content = json.loads(response.content)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ModelFailed("answered something that is not a completion") from error
    if not isinstance(content, str):
        raise ModelFailed("answered without a text")
    return content


def _retry_after(response: httpx.Response, pause: float) -> float:
    try:
        return min(max(float(response.headers.get("retry-after", "")), 0.0), _MAX_RETRY_AFTER)
    except ValueError:
        return pause
