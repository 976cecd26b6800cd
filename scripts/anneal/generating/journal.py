"""Answers that were got, each on the disk before it is used: a killed step asks nothing twice."""

import json
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from anneal.generating.requests import key


class Journal:
    """Answers by request, in an append-only file of JSON lines.

    Args:
        ask: body of a request to an answer: `text`, `finish`, `prompt_tokens`, `answer_tokens`.
        place: who is asked; the same words to somebody else are another request.
    """

    def __init__(self, path: Path, ask: Callable[[dict], dict], place: str, at_once: int):
        self.path, self.ask, self.place, self.at_once = path, ask, place, at_once
        path.parent.mkdir(parents=True, exist_ok=True)
        self.known, self.asked, self.lock = _read(path), 0, threading.Lock()

    def answers(self, bodies: Iterable[dict]) -> list[dict]:
        """The answers to requests, in order; only those not known yet are asked."""
        keys = {key(self.place, body): body for body in bodies}
        with ThreadPoolExecutor(self.at_once) as pool:
            new = [pool.submit(self._note, k, b) for k, b in keys.items() if k not in self.known]
            try:
                done, _ = wait(new, return_when=FIRST_EXCEPTION)
            finally:  # after an error nothing more is asked; what is under way is still noted
                pool.shutdown(wait=False, cancel_futures=True)
            for future in done:
                future.result()
        return [self.known[k] for k in keys]

    def _note(self, key: str, body: dict) -> None:
        answer = {"request": key, **self.ask(body)}
        with self.lock, self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(answer) + "\n")
            file.flush()
            os.fsync(file.fileno())
            self.known[key], self.asked = answer, self.asked + 1


def _read(path: Path) -> dict[str, dict]:
    """Answers by request; what a kill left of a last line is cut away."""
    if not path.is_file():
        return {}
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        os.truncate(path, len(whole))
    return {answer["request"]: answer for answer in map(json.loads, whole.splitlines())}
