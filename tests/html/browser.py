# SPDX-FileCopyrightText: The ddpbench authors
# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium over its debugging pipe (the DevTools protocol, messages ended by NUL): real
pages, real key presses and pointer moves, with nothing but the standard library."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
# Without the user's profile, and without traffic of its own.
ARGUMENTS = ("--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--disable-dev-shm-usage", "--remote-debugging-pipe", "about:blank")
LIMIT_S = 120  # for an answer; generous, as machines may be slow


def find_chromium():
    """Returns the path of the program, or None."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Browser:
    """A Chromium with one page."""

    def __init__(self, program):
        self._profile = tempfile.TemporaryDirectory(prefix="ddpbench-chromium-",
                                                    ignore_cleanup_errors=True)
        commands, self._out = os.pipe()  # it reads commands from 3 and writes answers to 4
        self._in, answers = os.pipe()
        # Above 3 and 4, so that dup2 overwrites neither.
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (commands, answers)]

        def place_pipes():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        arguments = [program, f"--user-data-dir={self._profile.name}", *ARGUMENTS]
        if os.geteuid() == 0:
            arguments.insert(1, "--no-sandbox")  # its sandbox refuses root
        self._process = subprocess.Popen(arguments, preexec_fn=place_pipes, pass_fds=(3, 4),
                                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL)
        for fd in (commands, answers, *ends):
            os.close(fd)
        self._buffer, self._number, self._session = b"", 0, None
        self.events = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def close(self):
        try:
            self.send("Browser.close")
        except (OSError, EOFError):
            pass
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def send(self, method, **parameters):
        """Returns the command's result. Raises RuntimeError with the browser's message on failure."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") != self._number:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            return answer["result"]

    def _receive(self):
        deadline = time.monotonic() + LIMIT_S
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], max(0, deadline - time.monotonic()))[0]:
                raise EOFError("Chromium does not answer")
            piece = os.read(self._in, 1 << 16)
            if not piece:
                raise EOFError("Chromium ended")
            self._buffer += piece
        text, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(text)

    # ---- actions of tests ----

    def size(self, width, height=900):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def media(self, kind="", scheme="light"):
        """`kind`: "print" or "" (screen)."""
        self.send("Emulation.setEmulatedMedia", media=kind,
                  features=[{"name": "prefers-color-scheme", "value": scheme},
                            {"name": "prefers-reduced-motion", "value": "reduce"}])

    def open(self, path):
        """Loads a file. `events` then has only those of this page."""
        self.events.clear()
        self.send("Page.navigate", url=f"file://{path}")
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")

    def run(self, script):
        """Returns the value of a JavaScript expression."""
        result = self.send("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, condition):
        deadline = time.monotonic() + LIMIT_S
        while not self.run(condition):
            if time.monotonic() > deadline:
                raise TimeoutError(condition)
            time.sleep(0.02)

    def _middle(self, selector):
        """Scrolls the first such element into view. Returns the position of its middle."""
        return self.run(f"""(() => {{
            const one = document.querySelector({json.dumps(selector)});
            one.scrollIntoView({{block: 'center', inline: 'center', behavior: 'instant'}});
            const box = one.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")

    def move_to(self, selector):
        x, y = self._middle(selector)
        # Scrolling hides the tip beside the pointer, one frame later.
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector):
        self.move_to(selector)
        x, y = self._middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key, text=""):
        codes = {"Enter": 13, "Tab": 9, " ": 32, "Escape": 27}
        common = {"key": key, "code": "Space" if key == " " else key,
                  "windowsVirtualKeyCode": codes[key]}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def screenshot(self):
        """Returns the whole page as PNG."""
        import base64
        return base64.b64decode(
            self.send("Page.captureScreenshot", captureBeyondViewport=True)["data"])

    def complaints(self):
        """Returns errors and warnings of the console, and exceptions."""
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(parameters["exceptionDetails"]))
            if event["method"] == "Log.entryAdded":
                found.append(parameters["entry"]["text"])
            if event["method"] == "Runtime.consoleAPICalled":
                found.append(str(parameters["args"]))
        return found

    def requests(self):
        return [event["params"]["request"]["url"] for event in self.events
                if event["method"] == "Network.requestWillBeSent"]
