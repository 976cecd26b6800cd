"""Secrets out of environment variables, which are named in the configuration and never written."""

import os

from anneal.errors import UserError


def secret(variable: str | None, what: str) -> str | None:
    """The secret in a variable; None if no variable is named.

    Args:
        what: what it is called in messages, such as `token`.

    Raises:
        UserError: it is not set, or holds what cannot stand in a header.
    """
    if not variable:
        return None
    value = os.environ.get(variable, "").strip()
    if not value:
        raise UserError(f"${variable}", "is not set", f"export it with the {what}")
    if not (value.isascii() and value.isprintable()):
        raise UserError(f"${variable}", f"holds no {what}", f"export it with the {what} alone")
    return value
