"""Chromium as an operator has it: headless, driven by chromedriver, in a profile of its own.

What it reports of a page: findings of axe-core, errors of its console (violations of the
Content-Security-Policy are among them), and whether the page is wider than the window.
"""

import base64
import json
import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess

Scheme = Literal["light", "dark"]
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
NARROW_PX, WIDE_PX = 360, 1280
HEIGHT_PX: Final = 800
TIMEOUT_S: Final = 120.0
COLOUR_RULES: Final = ("color-contrast", "link-in-text-block")
"""What a scheme decides: the other rules are asked once a width."""
WORST: Final = frozenset({"serious", "critical"})
"""Impacts of axe's findings that fail a test."""

AXE: Final = Path(__file__).parent.parent / "browser" / "axe_core" / "axe.min.js"
_RUN_AXE: Final = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ['violations'], preload: false, ...arguments[0]})
   .then(found => done({findings: found.violations.map(
        each => ({id: each.id, impact: each.impact, at: each.nodes.map(node => node.html.slice(0, 200))}))}))
   .catch(error => done({error: String(error)}));
"""
_SMALL: Final = """
const targets = 'button, .button, summary, select, textarea, nav a, .chips a, tbody th a, a.sort, label:has(input),'
  + ' input:not([type=hidden], [type=checkbox], [type=radio])';
return [...document.querySelectorAll(targets)].filter((each) => each.checkVisibility()).map(
  (each) => [each.getBoundingClientRect(), each]).filter(
  ([box]) => box.height > 0 && box.width > 1 && box.height < arguments[0]).map(
  ([box, each]) => `${Math.round(box.height)} px: ${each.outerHTML.slice(0, 120)}`);
"""
"""What a finger presses, links within sentences aside."""
TARGET_PX: Final = 40
_OVERFLOW: Final = "return document.documentElement.scrollWidth - window.innerWidth"


class Programs(NamedTuple):
    chromium: str
    chromedriver: str


def installed() -> Programs | None:
    """Chromium and its driver on the PATH; None where one is missing."""
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    chromedriver = shutil.which("chromedriver")
    return Programs(chromium, chromedriver) if chromium and chromedriver else None


@contextmanager
def running_browser(programs: Programs, folder: Path) -> Iterator["Browser"]:
    """A browser with an empty profile in *folder*; ended when the block ends."""
    environ = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
    service = Service(programs.chromedriver, env=environ)
    driver = webdriver.Chrome(options=_options(programs, folder), service=service)
    try:
        driver.set_page_load_timeout(TIMEOUT_S)
        driver.set_script_timeout(TIMEOUT_S)
        yield Browser(driver)
    finally:
        driver.quit()


def _options(programs: Programs, folder: Path) -> webdriver.ChromeOptions:
    options = webdriver.ChromeOptions()
    options.binary_location = programs.chromium
    for argument in (
        "--headless=new",
        "--no-sandbox",  # of root in a container there is none
        "--disable-dev-shm-usage",  # 64 MiB in a container
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-extensions",
        "--disable-sync",
        "--no-first-run",
        "--hide-scrollbars",
        "--force-prefers-reduced-motion",
        f"--user-data-dir={folder / 'profile'}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return options


class Browser:
    """One window. Every method waits until the page that it opens is loaded."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver
        self.base_url = ""

    def log_in(self, gateway: GatewayProcess) -> Self:
        """Open the page of *gateway* by a one-time link; later paths are its admin listener's."""
        ended = run_command(gateway, "open", "--print")
        assert ended.code == 0, ended.err
        self.driver.get(ended.out.strip())
        self.at(gateway)
        return self

    def log_in_as_viewer(self, gateway: GatewayProcess) -> Self:
        """By the viewer's token, typed into the form."""
        token = (gateway.data_dir / "viewer-token").read_text().strip()
        return self.at(gateway).visit("/login").fill("Token", token).press("Log in")

    def at(self, gateway: GatewayProcess) -> Self:
        self.base_url = gateway.admin_url
        return self

    def forget_session(self) -> Self:
        """Leave the page, whose live updates would be refused without its session, and forget the
        cookies.
        """
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
        return self

    def visit(self, path: str) -> Self:
        self.driver.get(self.base_url + path)
        return self

    @property
    def path(self) -> str:
        """Of the page that is shown, with its query."""
        return self.driver.current_url.removeprefix(self.base_url)

    @property
    def text(self) -> str:
        """What the page shows."""
        return self.find("body").text

    @property
    def source(self) -> str:
        return self.driver.page_source

    def find(self, css: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def all(self, css: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def texts(self, css: str) -> list[str]:
        return [element.text for element in self.all(css)]

    def button(self, name: str) -> WebElement:
        """The first button or link that is named so: by its text, else by its accessible name."""
        named = self.all_by_text("button", name) + self.all_by_text("a", name) + self.all_by_text("summary", name)
        for element in named:
            if element.is_displayed():
                return element
        for element in self.all("button, a, summary, [role=button]"):
            if name in (element.accessible_name, element.text.strip()) and element.is_displayed():
                return element
        raise AssertionError(f"no button or link {name!r} among {self.texts('button, a')}")

    def has_button(self, name: str) -> bool:
        return any(name in (each.accessible_name, each.text.strip()) for each in self.all("button, a, summary"))

    def press(self, name: str) -> Self:
        """Press a button or link with the mouse; the page that follows is loaded."""
        return self._leave(lambda: self.button(name).click())

    def press_here(self, name: str) -> Self:
        """Press what leads to no other page."""
        self.button(name).click()
        return self

    def focus(self, name: str) -> Self:
        """Give a button or link the focus."""
        self.driver.execute_script("arguments[0].focus()", self.button(name))
        return self

    def focused(self) -> str:
        """The name of what has the focus."""
        return str(self.driver.switch_to.active_element.accessible_name)

    def tab(self) -> Self:
        """To the next stop of the keyboard."""
        self.find("body").send_keys(Keys.TAB)
        return self

    def enter(self) -> Self:
        """Press Enter on what has the focus."""
        self.driver.switch_to.active_element.send_keys(Keys.ENTER)
        return self

    def press_by_keyboard(self, name: str) -> Self:
        """The same with the keyboard alone: it takes the focus, and Enter."""
        return self._leave(lambda: self.button(name).send_keys(Keys.ENTER))

    def send_from(self, label: str) -> Self:
        """Press Enter in a field: its form is sent."""
        return self._leave(lambda: self.field(label).send_keys(Keys.ENTER))

    def all_by_text(self, tag: str, text: str) -> list[WebElement]:
        """Elements whose text is *text*, found in one step: to ask each for its name takes many."""
        if "'" in text:
            return []
        return self.driver.find_elements(By.XPATH, f"//{tag}[normalize-space(.)='{text}']")

    def field(self, label: str) -> WebElement:
        """The field with this accessible name."""
        for named in self.all_by_text("label", label):
            of_id = named.get_attribute("for")
            within = named.find_elements(By.CSS_SELECTOR, "input, textarea, select")
            return self.driver.find_element(By.ID, of_id) if of_id else within[0]
        for element in self.all("input:not([type=hidden]), textarea, select"):
            if element.accessible_name == label:
                return element
        raise AssertionError(f"no field {label!r}")

    def fill(self, label: str, text: str) -> Self:
        field = self.field(label)
        field.clear()
        field.send_keys(text)
        return self

    def tick(self, label: str) -> Self:
        """Tick a box or a radio button that is not ticked."""
        field = self.field(label)
        if not field.is_selected():
            field.click()
        return self

    def choose(self, label: str, text: str) -> Self:
        """Choose an option of a select by the text that it shows."""
        option = next(each for each in self.field(label).find_elements(By.TAG_NAME, "option") if each.text == text)
        option.click()
        return self

    def _leave(self, act: Any) -> Self:
        """*act* loads a page: return when the page before is gone."""
        before = self.find("html").id
        act()
        self.until(lambda: self._is_loaded() and self.find("html").id != before, "another page")
        return self

    def _is_loaded(self) -> bool:
        return bool(self.driver.execute_script("return document.readyState === 'complete'"))

    def until(self, condition: Any, what: str) -> None:
        """Return when *condition* holds. Raises TimeoutException, naming *what*."""
        WebDriverWait(self.driver, TIMEOUT_S, poll_frequency=0.02).until(lambda _: condition(), f"not {what}")

    # ---- what it reports

    def show_as(self, scheme: Scheme, width_px: int, height_px: int = HEIGHT_PX) -> None:
        """The colour scheme that the operator prefers, and the size of the window."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        size = {"width": width_px, "height": height_px, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def scripts(self, *, run: bool) -> None:
        """Whether the next pages run their scripts; the tests' own run in any case."""
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not run})

    def audit(self, *, but: Collection[str] = (), only: Sequence[str] | None = None) -> list[str]:
        """Serious and critical findings of axe-core in the page as it is shown, by all rules but
        *but*, or by those of *only*.
        """
        chosen = {"runOnly": list(only)} if only is not None else {"rules": {rule: {"enabled": False} for rule in but}}
        if not self.driver.execute_script("return typeof axe === 'object'"):
            self.driver.execute_script(_axe())
        answer = self.driver.execute_async_script(_RUN_AXE, chosen)
        assert "error" not in answer, answer
        return [json.dumps(each) for each in answer["findings"] if each["impact"] in WORST]

    def overflow_px(self) -> int:
        """By how much the page is wider than the window."""
        return max(0, int(self.driver.execute_script(_OVERFLOW)))

    def small_targets(self) -> list[str]:
        """What is to be pressed and lower than `TARGET_PX`."""
        return list(self.driver.execute_script(_SMALL, TARGET_PX))

    def console(self) -> list[str]:
        """Warnings and errors since the last call; a refusal by the Content-Security-Policy is an
        error.
        """
        entries = self.driver.get_log("browser")
        return [entry["message"] for entry in entries if entry["level"] in ("WARNING", "SEVERE")]

    def was_answered(self, status: int) -> bool:
        """Whether the console reports an answer with *status* since the last call, and nothing
        else.
        """
        complaints = self.console()
        return bool(complaints) and all(f"status of {status}" in complaint for complaint in complaints)

    def picture(self, *, whole: bool = True, form: Literal["png", "webp"] = "png") -> bytes:
        """The page as it is shown, or with *whole* down to its end."""
        options: dict[str, Any] = {"format": form, "captureBeyondViewport": whole}
        if form == "webp":
            options["quality"] = 80
        if whole:
            size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
            options["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        return base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", options)["data"])


class Looks:
    """How a view is judged, in both colour schemes and at both widths, with targets for fingers."""

    def __init__(self, browser: Browser, pictures: Path | None) -> None:
        """*pictures*: folder for a picture of each; None for none."""
        self._browser = browser
        self._pictures = pictures

    def faults(self, view: str, *, but: Collection[str] = ()) -> Sequence[str]:
        """What is wrong with the page that is shown; empty where nothing is."""
        found: list[str] = []
        for scheme in SCHEMES:
            for width_px in (NARROW_PX, WIDE_PX):
                self._browser.show_as(scheme, width_px)
                name = f"{view}-{scheme}-{width_px}"
                colours = None if (scheme == "light") == (width_px == WIDE_PX) else COLOUR_RULES
                found += [f"{name}: {finding}" for finding in self._browser.audit(but=but, only=colours)]
                if wider_px := self._browser.overflow_px():
                    found.append(f"{name}: the page is {wider_px} px wider than the window")
                if width_px == NARROW_PX:
                    found += [f"{name}: a target is small: {each}" for each in self._browser.small_targets()]
                self._keep(name)
        return [*found, *self._browser.console()]

    def _keep(self, name: str) -> None:
        if self._pictures is not None:
            self._pictures.mkdir(parents=True, exist_ok=True)
            (self._pictures / f"{name}.png").write_bytes(self._browser.picture())


@cache
def _axe() -> str:
    return AXE.read_text()
