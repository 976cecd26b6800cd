"""Write 120 preference pairs: a visitor's question, a plain answer, and one that beats about it.

The chosen answer gives the fact in one sentence; the rejected one sounds friendly and says nothing.
All places and people are invented. Every run writes the same bytes.

Run from the repository root:

    python data/make_preferences.py
"""

import argparse
import json
import random
from pathlib import Path

SEED = 11

THINGS = [
    *("bicycle workshop", "first-aid room", "lost property office", "seed library", "tea kitchen"),
    *("pottery kiln", "reading room", "print shop", "rooftop garden", "music studio"),
    *("tool library", "darkroom", "chess corner", "repair café", "map archive"),
    *("sewing room", "community oven", "swap shelf", "quiet room", "film club"),
    *("climbing wall", "parcel desk", "drinking fountain", "wood workshop", "play area"),
    *("language table", "observatory", "boat shed", "laundry room", "herb bed"),
]
PLACES = [
    *("behind the north stairs", "on the second floor", "next to the main gate"),
    *("in the old stable", "below the clock tower", "across the courtyard", "at the end of hall B"),
    *("beside the canal", "in the glass house", "above the post office"),
]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
PEOPLE = [
    *("Mara Lind", "Tomas Rehn", "Ada Okoro", "Jon Vester", "Priya Nair", "Luc Morel"),
    *("Hana Ito", "Olaf Brandt", "Rosa Vidal", "Emil Novak"),
]

QUESTIONS = {
    "place": ("Where do I find the {thing}?", "The {thing} is {place}."),
    "time": (
        "I would like to visit the {thing}. When can I?",
        "It opens on {day} from {start} to {end} o'clock.",
    ),
    "person": ("Who looks after the {thing}, please?", "{person} does; ask at the front desk."),
    "price": ("What does an hour in the {thing} cost?", "An hour costs {euros} euros."),
}
EVASIONS = [
    "What a lovely question! Many of our guests wonder about the {thing}, and there is so much to "
    "say about it that I hardly know where to begin.",
    "It really depends on what you mean. Some people see the {thing} one way, others another, and "
    "both are right in their own fashion.",
    "Thank you so much for asking! I am sure you will enjoy your time, and do not forget to look "
    "around while you are here.",
    "As you may know, the {thing} has a long history, and questions like yours have been asked "
    "for many years by all sorts of people.",
    "I could tell you, but would it not be nicer to find out by yourself? Half of the joy of the "
    "{thing} is in the search.",
    "That is something to think about. Perhaps somebody else can say more; in any case I wish you "
    "a wonderful day with the {thing}.",
]


def pairs(seed: int = SEED) -> list[dict]:
    """Rows of `prompt`, `chosen`, `rejected` and `category`, in a shuffled order."""
    rng = random.Random(seed)
    rows = [_pair(rng, thing, category) for thing in THINGS for category in QUESTIONS]
    rng.shuffle(rows)
    return rows


def _pair(rng: random.Random, thing: str, category: str) -> dict:
    question, answer = QUESTIONS[category]
    start = rng.randrange(7, 16)
    facts = {
        **{"thing": thing, "place": rng.choice(PLACES), "day": rng.choice(DAYS)},
        **{"person": rng.choice(PEOPLE), "euros": rng.randrange(2, 30)},
        **{"start": start, "end": start + rng.randrange(2, 6)},
    }
    return {
        "prompt": question.format(**facts),
        "chosen": answer.format(**facts),
        "rejected": rng.choice(EVASIONS).format(**facts),
        "category": category,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("data/raw/preferences.jsonl"))
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in pairs())
    parser.parse_args().output.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
