"""The file behind an http(s) address, whole or not at all. No message holds a token."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import responses
from pathlib import Path
from urllib.parse import urlsplit

import requests
import urllib3

from anneal.cli import log
from anneal.errors import UserError
from anneal.secret import secret

CHUNK = 1 << 20
# Seconds: to connect and between two blocks; before each further try.
TIMEOUT = (10, 60)
WAITS = (1, 2, 4, 8)
BUSY = {408, 425, 429, 500, 502, 503, 504}
SIGN_IN = "name the environment variable of a valid token in 'token_env'"
DO = {401: SIGN_IN, 403: SIGN_IN, 404: "check the address", 410: "check the address"}
LATER = "run again later"


@contextmanager
def downloaded(url: str, path: Path, sha256: str | None, token_env: str | None) -> Iterator[Path]:
    """Yield `path` with the bytes behind `url`; it is gone afterwards.

    Args:
        sha256: of the bytes, if it is known.
        token_env: environment variable of a token, which only the host of `url` is sent.

    Raises:
        UserError: no token, no connection, no such file, cut off, or other bytes than `sha256`.
    """
    try:
        _download(url, path, secret(token_env, "token"))
        _verify(url, path, sha256)
        yield path
    finally:
        path.unlink(missing_ok=True)


def shown(url: str) -> str:
    """The name of an address in messages and records: all but its query."""
    return urlsplit(url)._replace(query="", fragment="").geturl()


def _download(url: str, path: Path, token: str | None) -> None:
    with requests.Session() as session, path.open("wb") as file:
        # not as a plain header: requests would put a password of ~/.netrc in its place
        session.auth = lambda request: _signed(request, token)
        session.headers["Accept-Encoding"] = "identity"
        for wait in (*WAITS, None):
            try:
                return _fetch(session, url, file)
            except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
                if wait is None or not _may_pass(error):
                    raise UserError(shown(url), *_reason(error)) from None
                log.info("%s: %s; goes on in %g s", shown(url), _reason(error)[0], wait)
            time.sleep(wait)


def _signed(request: requests.PreparedRequest, token: str | None) -> requests.PreparedRequest:
    if token:
        request.headers["Authorization"] = f"Bearer {token}"
    return request


def _fetch(session: requests.Session, url: str, file) -> None:
    """Append the bytes that the file lacks, where the server says that it is still the same."""
    have = file.tell() if "If-Range" in session.headers else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    with session.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
        answer.raise_for_status()
        if answer.status_code != requests.codes.partial_content:
            file.seek(0)
            file.truncate()
        etag = answer.headers.get("ETag", "W/")
        if not etag.startswith("W/"):
            session.headers["If-Range"] = etag
        for block in answer.raw.stream(CHUNK, decode_content=False):
            file.write(block)


def _may_pass(error: Exception) -> bool:
    """Whether a further try may help."""
    answer = getattr(error, "response", None)
    if answer is not None:
        return answer.status_code in BUSY
    passing = (requests.ConnectionError, requests.Timeout, urllib3.exceptions.HTTPError)
    return isinstance(error, passing) and not isinstance(error, requests.exceptions.SSLError)


def _reason(error: Exception) -> tuple[str, str]:
    """What is wrong and what to do; the error's own text may hold the query or a token."""
    answer = getattr(error, "response", None)
    if answer is not None:
        status = answer.status_code
        return f"the server answers {status} {responses.get(status, '')}", DO.get(status, LATER)
    if isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError):
        return "does not answer in time", LATER
    if isinstance(error, urllib3.exceptions.ProtocolError):
        return "truncated: the connection breaks off", LATER
    if isinstance(error, requests.exceptions.SSLError):
        return "its certificate is refused", "check the address"
    if isinstance(error, requests.ConnectionError):
        return "cannot be reached", "check address and connection"
    return f"cannot be downloaded: {type(error).__name__}", "check the address"


def _verify(url: str, path: Path, sha256: str | None) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    log.info("%s: sha256 %s", shown(url), found)
    if sha256 and found != sha256:
        what = f"has the sha256 {found}, not {sha256}"
        raise UserError(shown(url), what, "check the file, then its 'sha256'")
