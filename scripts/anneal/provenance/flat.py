"""Nested settings as one level: `training.learning_rate: 0.001`."""


def flat(value, prefix: str = "") -> dict:
    """Leaves of nested dicts by dotted path; lists are leaves."""
    if not isinstance(value, dict) or not value:
        return {prefix: value} if prefix else {}
    found = {}
    for key, item in value.items():
        found |= flat(item, f"{prefix}.{key}" if prefix else str(key))
    return found
