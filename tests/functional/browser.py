"""A real browser without a window, asked over its DevTools pipe: no driver, and no port that others may have."""

from __future__ import annotations

import base64
import io
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

CHROMIUM = Path("/usr/bin/chromium")
_PATIENCE = 60.0


@dataclass
class Tab:
    """A page in the browser. ``requests`` are the addresses it asked for, ``complaints`` what the console said."""

    _to: int
    _from: int
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    _session: str | None = None
    _number: int = 0
    _rest: bytes = b""
    _loaded: bool = False

    def open(self, address: str, width: int, height: int = 900) -> None:
        """Returns when all of it is there."""
        self.requests.clear()
        self.complaints.clear()
        self._loaded = False
        self.set_width(width, height)
        self.ask("Page.navigate", url=address)
        while not self._loaded:
            self._heed(self._message())

    def set_width(self, width: int, height: int = 900) -> None:
        """The page that is open is laid out again."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.ask("Emulation.setDeviceMetricsOverride", **screen)

    def value(self, expression: str) -> Any:
        """What JavaScript makes of it, by the debugger's right: the page's own policy does not matter."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        question: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            question["sessionId"] = self._session
        os.write(self._to, json.dumps(question).encode() + b"\0")
        while (answer := self._message()).get("id") != self._number:
            self._heed(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def begin(self) -> None:
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def _heed(self, event: dict[str, Any]) -> None:
        said = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(said["request"]["url"])
            case "Log.entryAdded":
                self.complaints.append(said["entry"]["text"])
            case "Runtime.consoleAPICalled":
                self.complaints.append(str(said["args"]))
            case "Runtime.exceptionThrown":
                self.complaints.append(str(said["exceptionDetails"]))
            case "Page.loadEventFired":
                self._loaded = True

    def _message(self) -> dict[str, Any]:
        until = time.monotonic() + _PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            more = os.read(self._from, 2**20)
            assert more, "the browser has ended"
            self._rest += more
        message, self._rest = self._rest.split(b"\0", 1)
        parsed: dict[str, Any] = json.loads(message)
        return parsed


def greys(tab: Tab, number: int = 0) -> tuple[int, int, int]:
    """The usual grey of a figure of the page, the darkest, and the lightest."""
    place = tab.value(f"document.images[{number}].getBoundingClientRect().toJSON()")
    clip = {name: place[name] for name in ("x", "y", "width", "height")} | {"scale": 1}
    seen = tab.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]
    grey = Image.open(io.BytesIO(base64.b64decode(seen))).convert("L")
    return max(grey.getcolors(maxcolors=256), key=lambda each: each[0])[1], *grey.getextrema()


@contextmanager
def browser(directory: Path) -> Iterator[Tab]:
    """One that keeps what it keeps in that directory, and is gone afterwards."""
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    command = [
        str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--disable-background-networking", "--no-first-run", f"--user-data-dir={directory}",
        "--remote-debugging-pipe", "about:blank",
    ]  # fmt: skip
    # It reads from descriptor 3 and writes to 4. bash: dash knows no descriptor above 9 to take them from.
    script = f'exec "$@" 3<&{to_read} 4>&{from_write}'
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", *command],
        pass_fds=(to_read, from_write),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_read)
    os.close(from_write)
    try:
        tab = Tab(to_write, from_read)
        tab.begin()
        yield tab
    finally:
        os.close(to_write)  # it ends when nobody can ask any more
        os.close(from_read)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
