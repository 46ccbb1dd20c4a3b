"""Chromium without a window, by its DevTools."""
import json
import os
import shutil
import subprocess
import tempfile


class Browser:
    """Chromium with its DevTools on two pipes: messages are JSON with a zero byte behind each."""

    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.writes = os.pipe()
        self.reads, from_browser = os.pipe()

        def pipes():
            os.dup2(to_browser, 30), os.dup2(from_browser, 31)
            os.dup2(30, 3), os.dup2(31, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={self.profile.name}", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser), os.close(from_browser)
        self.left, self.number, self.console = b"", 0, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def message(self):
        while b"\0" not in self.left:
            more = os.read(self.reads, 1 << 16)
            if not more:
                raise RuntimeError("the browser has ended")
            self.left += more
        one, self.left = self.left.split(b"\0", 1)
        return json.loads(one)

    def note(self, message):
        method, what = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.console.append("console: " + " ".join(str(a.get("value", a.get("description"))) for a in what["args"]))
        elif method == "Runtime.exceptionThrown":
            self.console.append("exception: " + what["exceptionDetails"]["text"])
        elif method == "Log.entryAdded":
            self.console.append("log: " + what["entry"]["text"])
        return method

    def call(self, method, **params):
        self.number += 1
        wanted = {"id": self.number, "method": method, "params": params}
        if getattr(self, "session", None):
            wanted["sessionId"] = self.session
        os.write(self.writes, json.dumps(wanted).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self.note(message)

    def open(self, url, width):
        self.console = []
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        self.call("Page.navigate", url=url)
        while self.note(self.message()) != "Page.loadEventFired":
            pass

    def value(self, expression):
        """Of an expression, or of what it promises."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)["result"].get("value")

    def close(self):
        self.process.kill()
        self.process.wait()


def program():
    """Chromium, or None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
