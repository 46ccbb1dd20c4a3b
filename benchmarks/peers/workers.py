"""Processes that stay, and make steps when they are asked: each side of a comparison has one, so that sides take turns with all of them warm.

A worker prints "ready" behind its first step. It then answers each line `n` on standard input with a line of JSON: {"milliseconds": [of each of n steps]},
and whatever else its side tells. It ends where its standard input does.
"""
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time


def serve(step, facts=dict):
    """What a worker does. @param facts  gives what an answer tells beside times"""
    step()
    print("ready", flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            step()
            times.append(1e3 * (time.perf_counter() - begin))
        print(json.dumps({"milliseconds": times, **facts()}), flush=True)


class Worker:
    """A process that serves. Made once its first step is done, or it has ended: then it is not ready."""

    def __init__(self, name, command):
        self.name = name
        self.answer = {}
        self.said = tempfile.TemporaryFile("w+")  # not a pipe, which would be full of warnings one day, and the worker stand still
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True)
        self.is_ready = self.process.stdout.readline().strip() == "ready"

    def problem(self):
        """The last line that it wrote to standard error before its end."""
        self.stop()
        self.said.seek(0)
        return "".join(self.said.read().strip().splitlines()[-1:]) or f"status {self.process.returncode}"

    def fail(self):
        """Ends this program with what the worker said last."""
        sys.exit(f"{os.path.basename(sys.argv[0])}: {self.name} ended: {self.problem()}")

    def median(self, runs):
        """Milliseconds of a step. The whole answer stays in `answer`."""
        try:
            self.process.stdin.write(f"{runs}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.fail()
        line = self.process.stdout.readline()
        if not line:
            self.fail()
        self.answer = json.loads(line)
        return statistics.median(self.answer["milliseconds"])

    def stop(self):
        with contextlib.suppress(BrokenPipeError):  # it had ended before it read the last line
            self.process.stdin.close()
        self.process.wait()
