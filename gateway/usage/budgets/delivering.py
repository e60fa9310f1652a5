"""Calls the webhooks of alerts, from their queue in control.db until each is taken or given up.

A kill between an answer and its note repeats the call after the restart, with the same id: at least
once. No redirect is followed and no proxy of the environment used; a link-local address is reached
only where that is configured.
"""

import asyncio
import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, Final, NamedTuple

import aiohttp
import structlog

from exporters.backoff import LONGEST_S, full_jitter_s
from exporters.http_client import PRODUCT
from gateway.usage.budgets.addresses import WHAT, is_link_local
from gateway.usage.budgets.home import BudgetHome, Delivery, Waiting
from gateway.usage.budgets.webhook import Webhook, headers_of

log = structlog.get_logger()

TIMEOUT_S: Final = 15.0
GIVEN_UP_MS: Final = 3 * 86_400_000
"""After the alert."""
LEAST_ATTEMPTS: Final = 10
"""Even where the gateway was stopped for so long."""
DEFAULT: Final = ""
"""Name of the webhook of all budgets."""


AddrInfo = tuple[int, int, int, str, tuple[Any, ...]]
"""As `socket.getaddrinfo` has them: family, type, protocol, name, address."""


class _Retry(NamedTuple):
    """A webhook that did not take the last call."""

    failures: int
    """In a row."""
    due_s: float
    """When it is called again; monotonic."""


class Deliverer:
    """`run` until cancelled; `wake` it after an alert was stored."""

    def __init__(
        self,
        home: BudgetHome,
        webhooks: Mapping[str, Webhook],
        *,
        now_ms: Callable[[], int],
        earlier_ms: Callable[[], int],
        chance: Callable[[], float] = random.random,
    ) -> None:
        """*now_ms* is the wall clock, which may jump; by *earlier_ms* an alert is old."""
        self._home = home
        self._webhooks = webhooks
        self._now_ms = now_ms
        self._earlier_ms = earlier_ms
        self._chance = chance
        self._woken = asyncio.Event()
        self._retries: dict[str, _Retry] = {}
        """By webhook, of those that did not take their last call."""
        self._called: set[str] = set()
        """Webhooks that are called now."""
        self.calls: Counter[str] = Counter()
        """`delivered`, `retried`, `failed` -> calls since the start."""
        self.pending = 0

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        """Call what waits, until cancelled. Each webhook has a task of its own while anything waits
        for it, so that one that answers slowly holds up no other.
        """
        async with asyncio.TaskGroup() as calls:
            while True:
                wait_s = LONGEST_S
                try:
                    wait_s = await self._begin_due(calls)
                except Exception as error:  # noqa: BLE001 - the next round repeats the work
                    log.warning("webhooks of budgets wait", error=type(error).__name__)
                try:
                    async with asyncio.timeout(wait_s):
                        await self._woken.wait()
                except TimeoutError:
                    pass
                self._woken.clear()

    async def _begin_due(self, calls: asyncio.TaskGroup) -> float:
        """Begin to call each webhook that is due; seconds until the next one is, of those that are
        not called now.
        """
        waiting = await self._home.read(lambda kept: kept.waiting_webhooks())
        self.pending = sum(waiting.values())
        self._retries = {name: retry for name, retry in self._retries.items() if name in waiting}
        now_s = time.monotonic()
        for name in waiting.keys() - self._called:
            if name not in self._retries or self._retries[name].due_s <= now_s:
                self._called.add(name)
                calls.create_task(self._call_one_by_one(name), name="webhook of budgets")
        left_s = [retry.due_s - now_s for name, retry in self._retries.items() if name not in self._called]
        return max(0.0, min(left_s, default=LONGEST_S))

    async def _call_one_by_one(self, name: str) -> None:
        """Call one webhook with what waits for it, until it does not take one."""
        failures = self._retries[name].failures if name in self._retries else 0
        try:
            async with session_to(self._webhooks.get(name)) as session:
                while (each := await self._home.read(lambda kept: kept.next_waiting(name))) is not None:
                    if await self._call(session, each) is not None:
                        self._retry_later(name, failures + 1)
                        return
                    failures = 0
            self._retries.pop(name, None)
        except Exception as error:  # noqa: BLE001 - its next turn repeats the work
            log.warning("webhooks of budgets wait", error=type(error).__name__)
            self._retry_later(name, failures + 1)
        finally:
            self._called.discard(name)
            self.wake()  # for what came meanwhile, and when to call again

    def _retry_later(self, name: str, failures: int) -> None:
        self._retries[name] = _Retry(failures, time.monotonic() + full_jitter_s(failures, self._chance()))

    async def _call(self, session: aiohttp.ClientSession, each: Waiting) -> str | None:
        """Why the call was not taken; None when it was."""
        fault = await self._fault(session, each, self._now_ms() // 1000)
        is_over = self._earlier_ms() - each.at_ms > GIVEN_UP_MS and each.attempts + 1 >= LEAST_ATTEMPTS
        outcome: Delivery = "delivered" if fault is None else "failed" if is_over else "pending"
        now_ms = self._now_ms()
        await self._home.commit(lambda kept: kept.note_attempt(each.alert_no, outcome, now_ms))
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
            return "the configuration no longer names it"
        headers = headers_of(webhook, each.alert_id, each.body, now_s)
        try:
            async with session.post(
                webhook.url.reveal(), data=each.body, headers=headers, allow_redirects=False
            ) as answer:
                return None if 200 <= answer.status < 300 else f"HTTP {answer.status}"  # noqa: PLR2004 - success
        except aiohttp.ClientConnectorError as error:
            return str(error.os_error) if isinstance(error.os_error, AddressRefused) else type(error).__name__
        except (aiohttp.ClientError, OSError) as error:  # OSError includes TimeoutError
            return type(error).__name__


class AddressRefused(OSError):
    """The webhook is at an address that it may not have."""


def session_to(webhook: Webhook | None) -> aiohttp.ClientSession:
    """A session of which each connection is checked by its address, after names were looked up."""
    opened = any_socket if webhook is not None and webhook.link_local else checked_socket
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
        headers={"User-Agent": f"{PRODUCT}/{version(PRODUCT)}"},
        cookie_jar=aiohttp.DummyCookieJar(),
        connector=aiohttp.TCPConnector(socket_factory=opened),
    )


def checked_socket(to: AddrInfo) -> socket.socket:
    """Raises AddressRefused."""
    if is_link_local(str(to[4][0])):
        raise AddressRefused(f"its address is {WHAT}: set link_local: true where that is meant")
    return any_socket(to)


def any_socket(to: AddrInfo) -> socket.socket:
    family, kind, protocol, _, _ = to
    return socket.socket(family, kind, protocol)
