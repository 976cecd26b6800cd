"""What the doctor says: one line each."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """`ok`, `note` (nothing has to be done now) or `wrong`; what was found, and what to do."""

    level: Literal["ok", "note", "wrong"]
    what: str
    do: str = ""

    def __str__(self) -> str:
        return f"{self.level:<6}{self.what}" + (f"; {self.do}" if self.do else "")
