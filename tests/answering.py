"""An OpenAI-compatible server on the loopback that writes tasks, and fails as it is told."""

import json
import random
import threading
import time
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORDS = [
    *("river", "glass", "violin", "harvest", "engine", "lantern", "copper", "meadow", "saddle"),
    *("winter", "letter", "bridge", "candle", "market", "pepper", "island", "compass", "thunder"),
    *("ribbon", "garden", "whistle", "anchor", "feather", "marble"),
]


def written(seed: int) -> str:
    """The answer to a request: three tasks, the second of which is too short."""
    chance = random.Random(seed)
    first, third = (" ".join(chance.sample(WORDS, 7)) for _ in range(2))
    tasks = [f"Explain {first}.", "Sing.", f"Compare {third}."]
    return "\n\n".join(
        f"Task {n}\nInstruction: {text}\nInput: (none)\nOutput: The answer to {seed}."
        for n, text in enumerate(tasks, 9)
    )


def completion(seed: int) -> dict:
    choice = {"message": {"role": "assistant", "content": written(seed)}, "finish_reason": "stop"}
    return {"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 40}}


class Answering(BaseHTTPRequestHandler):
    """A request meets the next of `server.faults`, a function of this handler, if one is left."""

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.guard:
            server.asked.append((time.monotonic(), body, dict(self.headers)))
            fault = server.faults.pop(0) if server.faults else None
            server.busy += 1
            server.busiest = max(server.busiest, server.busy)
        time.sleep(server.seconds)
        with server.guard:
            server.busy -= 1
        if fault:
            fault(self)
        else:
            self.give(json.dumps(completion(body["seed"])).encode())
            server.answered[json.dumps(body)] += 1

    def give(self, data: bytes, status: int = 200, length: int | None = None, **headers: str):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # who asked was killed


@contextmanager
def answering(seconds: float = 0.0):
    """A server at `url`, with what it was asked and how often it answered each body."""
    with Server(("127.0.0.1", 0), Answering) as server:
        server.url = f"http://127.0.0.1:{server.server_port}/v1"
        server.seconds, server.faults, server.asked, server.answered = seconds, [], [], Counter()
        server.busy = server.busiest = 0
        server.guard = threading.Lock()
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()
