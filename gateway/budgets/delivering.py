"""Calls the webhooks of alerts, from their queue in control.db until each was taken or given up.

A call that ended between the answer and its note is made again after a restart, with the same id:
at least once. No redirect is followed and no proxy of the environment used.
"""

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import Final, NamedTuple

import aiohttp
import structlog

from exporters.backoff import LONGEST_S, full_jitter_s
from exporters.http_client import PRODUCT
from gateway.budgets.tables import Delivery, Waiting, note_attempt, waiting
from gateway.budgets.webhook import Webhook, headers_of
from gateway.storage.database import Database

log = structlog.get_logger()

TIMEOUT_S: Final = 15.0
GIVEN_UP_MS: Final = 3 * 86_400_000
"""After the alert."""
LEAST_ATTEMPTS: Final = 10
"""Even where the gateway was stopped for so long."""
DEFAULT: Final = ""
"""Name of the webhook of all budgets."""


class _Retry(NamedTuple):
    """A webhook that did not take the last call."""

    failures: int
    """In a row."""
    due_s: float
    """When it is called again; monotonic."""


class Deliverer:
    """`run` until cancelled; `wake` it when something was put into the queue."""

    def __init__(
        self,
        database: Database,
        webhooks: Mapping[str, Webhook],
        *,
        now_ms: Callable[[], int],
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._database = database
        self._webhooks = webhooks
        self._now_ms = now_ms
        self._chance = chance
        self._woken = asyncio.Event()
        self._retries: dict[str, _Retry] = {}
        """By webhook, of those that took nothing lately."""
        self.calls: Counter[str] = Counter()
        """`delivered`, `retried`, `failed` -> calls since the start."""
        self.pending = 0

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        """Call what waits, until cancelled."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        headers = {"User-Agent": f"{PRODUCT}/{version(PRODUCT)}"}
        async with aiohttp.ClientSession(
            timeout=timeout, headers=headers, cookie_jar=aiohttp.DummyCookieJar()
        ) as session:
            while True:
                wait_s = LONGEST_S
                try:
                    wait_s = await self._call_due(session)
                except Exception as error:  # noqa: BLE001 - the next round repeats the work
                    log.warning("webhooks of budgets wait", error=type(error).__name__)
                try:
                    async with asyncio.timeout(wait_s):
                        await self._woken.wait()
                except TimeoutError:
                    pass
                self._woken.clear()

    async def _call_due(self, session: aiohttp.ClientSession) -> float:
        """Call each webhook that is due; seconds until the next one is."""
        queue = await self._database.read(waiting)
        self.pending = len(queue)
        by_webhook: dict[str, list[Waiting]] = defaultdict(list)
        for each in queue:
            by_webhook[each.webhook].append(each)
        self._retries = {name: retry for name, retry in self._retries.items() if name in by_webhook}
        calls = [self._call_one_by_one(session, name, each) for name, each in by_webhook.items()]
        ended = await asyncio.gather(*calls, return_exceptions=True)  # none goes on beside the next round
        for fault in filter(None, ended):
            raise fault
        left_s = [retry.due_s - time.monotonic() for retry in self._retries.values()]
        return max(0.0, min(left_s, default=LONGEST_S))

    async def _call_one_by_one(self, session: aiohttp.ClientSession, name: str, queue: Sequence[Waiting]) -> None:
        """Call one webhook with what waits for it, until it does not take one."""
        retry = self._retries.get(name, _Retry(0, 0.0))
        if retry.due_s > time.monotonic():
            return
        for each in queue:
            fault = await self._call(session, each)
            if fault is not None:
                failures = retry.failures + 1
                self._retries[name] = _Retry(failures, time.monotonic() + full_jitter_s(failures, self._chance()))
                return
            retry = _Retry(0, 0.0)
        self._retries.pop(name, None)

    async def _call(self, session: aiohttp.ClientSession, each: Waiting) -> str | None:
        """Why the call was not taken; None when it was."""
        now_ms = self._now_ms()
        fault = await self._fault(session, each, now_ms // 1000)
        is_over = now_ms - each.at_ms > GIVEN_UP_MS and each.attempts + 1 >= LEAST_ATTEMPTS
        outcome: Delivery = "delivered" if fault is None else "failed" if is_over else "pending"
        note = partial(note_attempt, alert_no=each.alert_no, outcome=outcome, now_ms=self._now_ms())
        await self._database.write(note)
        self.calls["retried" if outcome == "pending" else outcome] += 1
        self.pending -= outcome != "pending"
        if outcome == "pending":
            log.warning("the webhook of a budget was not taken", alert_id=each.alert_id, reason=fault)
        elif outcome == "failed":
            log.error("the webhook of a budget was given up", alert_id=each.alert_id, reason=fault)
        return fault

    async def _fault(self, session: aiohttp.ClientSession, each: Waiting, now_s: int) -> str | None:
        """Why the call was not taken, without the address, which may hold a token; None when it
        was.
        """
        webhook = self._webhooks.get(each.webhook)
        if webhook is None:
            return "the configuration has it no more"
        headers = headers_of(webhook, each.alert_id, each.body, now_s)
        try:
            async with session.post(
                webhook.url.reveal(), data=each.body, headers=headers, allow_redirects=False
            ) as answer:
                return None if 200 <= answer.status < 300 else f"HTTP {answer.status}"  # noqa: PLR2004 - success
        except (aiohttp.ClientError, OSError) as error:  # OSError includes TimeoutError
            return type(error).__name__
