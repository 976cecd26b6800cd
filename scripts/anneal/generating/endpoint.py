"""An OpenAI-compatible endpoint. Busy servers and broken connections are tried again.

No message holds the key, nor what the server says of it.
"""

import time
from email.utils import parsedate_to_datetime
from http.client import responses

import requests
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from anneal.cli import log
from anneal.errors import UserError
from anneal.secret import secret

TRIES = 8
WAIT = wait_random_exponential(multiplier=1, max=60)  # seconds
LONGEST = 600  # seconds that a server may have us wait
BUSY = {408, 409, 425, 429, 500, 502, 503, 504, 529}
LATER = "run again later: answers so far are kept"
DO = {
    401: "export a valid key in the variable that 'key_env' names",
    403: "export a valid key in the variable that 'key_env' names",
    404: "check 'url' and 'model'",
}


class Passing(UserError):
    """What may go well at the next try.

    Args:
        after: seconds that the server asks to wait.
    """

    def __init__(self, where: str, what: str, after: float | None = None):
        super().__init__(where, what, LATER)
        self.after = after


class Endpoint:
    """Asks an endpoint; may be called from several threads.

    Args:
        url: base address, such as `http://localhost:8000/v1`.
        key_env: environment variable of its key.
        timeout: seconds that a request may take.
    """

    def __init__(self, url: str, key_env: str | None, timeout: float):
        self.url, self.timeout = f"{url.rstrip('/')}/chat/completions", timeout
        self.key, self.free_at = secret(key_env, "key"), 0.0

    def __call__(self, body: dict) -> dict:
        """The answer's `text`, `finish`, `prompt_tokens` and `answer_tokens`.

        Raises:
            UserError: the request is refused, or does not go through in `TRIES` tries.
        """
        trying = Retrying(
            retry=retry_if_exception_type(Passing),
            wait=self._wait,
            stop=stop_after_attempt(TRIES),
            reraise=True,
        )
        return trying(self._once, body)

    def _once(self, body: dict) -> dict:
        time.sleep(max(0.0, self.free_at - time.monotonic()))
        try:
            answer = requests.post(
                self.url,
                json=body,
                auth=self._signed,  # not as a plain header: ~/.netrc would take its place
                timeout=self.timeout,
                allow_redirects=False,
            )
        except requests.exceptions.SSLError:
            raise UserError(self.url, "its certificate is refused", "check 'url'") from None
        except requests.Timeout:
            raise Passing(self.url, f"does not answer in {self.timeout:g} s") from None
        except requests.RequestException:
            raise Passing(self.url, "cannot be reached, or the connection breaks off") from None
        if not answer.ok or answer.is_redirect:
            raise self._refusal(answer)
        return self._answer(answer)

    def _signed(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self.key:
            request.headers["Authorization"] = f"Bearer {self.key}"
        return request

    def _refusal(self, answer: requests.Response) -> UserError:
        status = answer.status_code
        what = f"the server answers {status} {responses.get(status, '')}".rstrip()
        if status not in BUSY:
            return UserError(self.url, what, DO.get(status, "check the settings of 'generate'"))
        after = _seconds(answer.headers.get("Retry-After", ""))
        if after and after > LONGEST:
            return UserError(self.url, f"{what} and asks to wait {after:.0f} s", LATER)
        if after:  # for all threads: a rate limit is one for the key
            self.free_at = max(self.free_at, time.monotonic() + after)
        return Passing(self.url, what, after)

    def _answer(self, answer: requests.Response) -> dict:
        try:
            found = answer.json()
            choice, usage = found["choices"][0], found.get("usage") or {}
            text = choice["message"]["content"] or ""
            if not isinstance(text, str):
                raise TypeError
            return {
                "text": text,
                "finish": choice.get("finish_reason") or "stop",
                "prompt_tokens": usage.get("prompt_tokens"),
                "answer_tokens": usage.get("completion_tokens"),
            }
        except (ValueError, LookupError, TypeError, AttributeError):
            raise Passing(self.url, "answers something else than a chat completion") from None

    def _wait(self, state: RetryCallState) -> float:
        error = state.outcome.exception()
        seconds = error.after or WAIT(state)
        log.info("%s: %s; asks again in %.1f s", self.url, error.what, seconds)
        return seconds


def _seconds(text: str) -> float | None:
    """Seconds of a Retry-After header: a number, or a date."""
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None
