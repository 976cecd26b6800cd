"""Numbers and texts as the report writes them."""

import json
import re

THIN = "\u202f"
CONTROL = re.compile(r"(<\|[^|<>\n]{1,40}\|>|</?s>|\[/?INST\]|<(?:bos|eos|pad|unk)>|\n)")


def number(value: float) -> str:
    """A count with thin spaces between thousands."""
    return f"{value:,}".replace(",", THIN)


def percent(value: float) -> str:
    return f"{100 * value:.1f}{THIN}%"


def plain(name: str) -> str:
    return name.replace("_", " ")


def score(result: dict | None) -> str:
    """Value and standard error of a benchmark; a dash where there is none."""
    if result is None:
        return "–"
    error = "" if result["stderr"] is None else f" ± {result['stderr']:.3f}"
    return f"{result['value']:.3f}{error}"


def signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−") if round(value, 3) else "0.000"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f}{THIN}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}{THIN}min {rest}{THIN}s"
    return f"{minutes // 60}{THIN}h {minutes % 60}{THIN}min"


def memory(mebibytes: float) -> str:
    if mebibytes < 1024:
        return f"{mebibytes:.0f}{THIN}MiB"
    return f"{mebibytes / 1024:.1f}{THIN}GiB"


def setting(value) -> str:
    """A setting as it would stand in the configuration file."""
    return json.dumps(value, ensure_ascii=False, default=str)


def counted(counts: dict[str, int]) -> str:
    """`3 exact duplicate, 1 too long`; the word none where there are none."""
    return ", ".join(f"{number(n)} {plain(name)}" for name, n in counts.items()) or "none"


def text_parts(text: str) -> list[dict]:
    """A text cut so that control tokens and ends of lines can be marked."""
    pieces = [piece for piece in CONTROL.split(text) if piece]
    return [{"text": piece, "kind": _kind(piece)} for piece in pieces]


def _kind(piece: str) -> str:
    if piece == "\n":
        return "newline"
    return "control" if CONTROL.fullmatch(piece) else ""


FILTERS = {
    f.__name__: f
    for f in (
        *(counted, duration, memory, number, percent, plain, score, setting, signed),
        text_parts,
    )
}
