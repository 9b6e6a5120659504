"""The browser's window as tests need it: open a file at a width, in light or dark, and ask the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from selenium.webdriver import Chrome

OWN = ("file:", "data:", "chrome:", "about:", "devtools:")


class Window:
    """One browser window.

    Args:
        chrome: the driver.
    """

    def __init__(self, chrome: Chrome) -> None:
        self._chrome = chrome

    def open(self, path: Path, width: int = 1280, scheme: Literal["light", "dark"] = "light") -> None:
        """Open a file; what the browser logged before is dropped."""
        for kind in ("browser", "performance"):
            self._log(kind)
        self.show(width, scheme)
        self._chrome.get(path.as_uri())

    def show(self, width: int, scheme: Literal["light", "dark"] = "light") -> None:
        """Set width and colour scheme of the page that is open."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})

    def print_media(self) -> None:
        """Show the page that is open as it prints for a reader whose system is dark."""
        features = [{"name": "prefers-color-scheme", "value": "dark"}]
        self._chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": features})

    def ask(self, script: str, *arguments: Any) -> Any:
        """Return what a script of the test's own returns; the page itself may run none."""
        return self._chrome.execute_script(script, *arguments)

    def log(self) -> list[str]:
        """Return what the console says."""
        return [entry["message"] for entry in self._log("browser")]

    def requested(self) -> list[str]:
        """Return the addresses that were asked for since the file was opened, its own and the browser's aside."""
        events = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        asked = [
            event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"
        ]
        return [address for address in asked if not address.startswith(OWN)]

    def pdf(self) -> str:
        """Return the page printed, base64."""
        found: str = self._chrome.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})["data"]
        return found

    def press_tab(self) -> None:
        """Press the tabulator key."""
        for kind in ("keyDown", "keyUp"):
            key = {"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
            self._chrome.execute_cdp_cmd("Input.dispatchKeyEvent", key)

    def _log(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._chrome.get_log(kind)  # type: ignore[no-untyped-call]
        return found
