"""Whether an instruction is new: its ROUGE-L against every earlier one.

ROUGE-L (Lin 2004, F1) of two sequences of m and n words is 2 LCS / (m + n). That is RapidFuzz's
normalised Indel similarity, which counts 64 words at a time; words become single characters.
"""

import re

from rapidfuzz import process
from rapidfuzz.distance import Indel

# Words; of scripts that put no blanks between them, characters.
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]|[^\W_]+?(?=[\W_]|$|[\u3040-\u9fff])")
SURROGATES = range(0xD800, 0xE000)


def words(text: str) -> list[str]:
    """Words in lower case, without punctuation."""
    return WORD.findall(text.casefold())


class Earlier:
    """Instructions seen so far, and which of them another one is most like."""

    def __init__(self):
        self.ids, self.texts, self.characters = [], [], {}

    def add(self, name: str, text: str) -> None:
        self.ids.append(name)
        self.texts.append(self._packed(text))

    def nearest(self, text: str) -> tuple[float, str | None]:
        """ROUGE-L of the most similar earlier instruction (0 to 1), and its name."""
        found = process.extractOne(
            self._packed(text), self.texts, scorer=Indel.normalized_similarity
        )
        return (found[1], self.ids[found[2]]) if found else (0.0, None)

    def _packed(self, text: str) -> str:
        return "".join(map(self._character, words(text)))

    def _character(self, word: str) -> str:
        if word not in self.characters:
            number = len(self.characters)
            skipped = len(SURROGATES) if number >= SURROGATES.start else 0
            self.characters[word] = chr(number + skipped)
        return self.characters[word]
