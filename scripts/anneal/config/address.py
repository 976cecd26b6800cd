"""Addresses in the configuration: http or https, and without any secret in them."""

import re
from urllib.parse import SplitResult, parse_qsl, urlsplit

# Parameters of an address that are as secret as a password.
SECRET = re.compile(
    r"token|secret|passw|signature|credential|(^|api|access|auth|[-_])key$|^(sig|auth)$", re.I
)


def check_address(url: str, secret: str, variable: str) -> None:
    """Refuse what is no address, and one that holds credentials.

    Args:
        secret: what the address is used with, such as a token.
        variable: the field that names the environment variable it belongs in.

    Raises:
        ValueError: without a word of the address, which may hold a password.
    """
    parts = _split(url)
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    if "@" in parts.netloc or any(map(SECRET.search, names)):
        do = f"export a {secret}, and name its environment variable in '{variable}'"
        raise ValueError(f"'url' holds credentials; {do}")


def _split(url: str) -> SplitResult:
    """Raises ValueError, without a word of the address: it may hold a password."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - is checked when it is read
    except ValueError:
        raise ValueError("'url' is no address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("'url' must begin with http:// or https:// and a host")
    return parts
