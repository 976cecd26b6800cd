"""Write the demo's raw data: expense notes and the ledger line that books each of them.

The skill is to turn an employee's free-text note into one line ``category | amount | payment``,
such as ``travel | 34.50 EUR | card``. The phrases come from ``demo_wording.json``: noun phrases
("np") start a note or follow "for", verb phrases ("vp") follow "I" or "we". The records are spread
over four source formats and carry known numbers of deliberate defects, which the summary on
standard output lists. All people and addresses are invented; the account, card and phone numbers
are reserved or published examples. With the same library versions, every run writes the same
bytes.

Run from the repository root:

    python data/generate_demo.py
"""

import argparse
import gzip
import html
import itertools
import json
import random
import re
import sqlite3
import unicodedata
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

WORDS = json.loads(Path(__file__).with_name("demo_wording.json").read_text(encoding="utf-8"))
SEED = 20
SIZES = {"expenses": 295, "mobile_app": 165, "archive": 125, "erp": 95}
LONG_NOTES = 10
MAX_SIMILARITY = 0.4
NEAR_DUPLICATE_SIMILARITY = 0.82

# How many of each defect a source carries. A "duplicate" repeats a record of the same source, a
# "cross_duplicate" one of the first source; "near_duplicate" changes a long note of the first.
PLAN = {
    "expenses": {
        "email": 2, "phone": 1, "iban": 1, "payment_card": 1, "ipv4": 1, "html_escaped": 2,
        "nfd_accent": 2, "duplicate": 6, "near_duplicate": 2, "empty_answer": 3, "null_note": 1,
        "number_answer": 1, "unclosed_object": 2, "array_line": 1, "trailing_comma": 1,
        "invalid_utf8": 1, "blank_line": 4, "crlf": 10, "cut_off_last_line": 1,
    },
    "mobile_app": {
        "email": 1, "phone": 2, "iban": 1, "payment_card": 1, "ipv4": 1, "html_escaped": 1,
        "nfd_accent": 1, "duplicate": 3, "cross_duplicate": 5, "near_duplicate": 3,
        "empty_answer": 2, "null_answer": 1, "number_note": 1, "unclosed_object": 1,
        "trailing_comma": 1, "blank_line": 2, "cut_off_last_line": 1,
    },
    "archive": {
        "email": 1, "iban": 1, "duplicate": 2, "cross_duplicate": 4, "near_duplicate": 3,
        "empty_answer": 1, "null_answer": 1, "null_note": 1,
    },
    "erp": {
        "phone": 1, "payment_card": 1, "duplicate": 2, "cross_duplicate": 3, "near_duplicate": 2,
        "empty_answer": 1, "null_note": 1, "number_answer": 1, "void_row": 5,
    },
}  # fmt: skip

# The lowest and the highest usual amount of each category.
RANGES = {
    "travel": (3, 900), "food": (3, 240), "phone": (4, 130), "office": (2, 480),
    "software": (6, 2400), "training": (15, 2600),
}  # fmt: skip

PII = {
    "email": "Receipt to {}.",
    "phone": "Questions: {}.",
    "iban": "Their IBAN {}.",
    "payment_card": "Card no. {}.",
    "ipv4": "Logged from {}.",
}
PRIVATE = {
    "email": ["r.keller@example.com", "ines.m@example.org", "ops@example.net", "j@example.com"],
    "phone": ["+1 202-555-0143", "+44 20 7946 0958", "+1 (415) 555-0117", "+44 1632 960123"],
    "iban": ["DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432", "NL91 ABNA 0417 1643 00"],
    "payment_card": ["4111 1111 1111 1111", "5555-5555-5555-4444", "378282246310005"],
    "ipv4": ["192.0.2.44", "203.0.113.7"],
}  # fmt: skip

# Values that no cleaning step can repair.
UNUSABLE = {
    "empty_answer": {"answer": ""},
    "null_note": {"note": None},
    "null_answer": {"answer": None},
    "number_answer": {"answer": 4711},
    "number_note": {"note": 2048},
}

FIELDS = {
    "expenses": ("instruction", "input", "output", "category"),
    "mobile_app": ("task", "note", "booking", "kind"),
    "archive": ("prompt", "memo", "ledger_line", "stratum"),
    "erp": ("request", "description", "booked_line", "account"),
}


@dataclass(frozen=True)
class Record:
    """One training example; the value types are loose because defects put in other ones."""

    instruction: object
    note: object
    answer: object
    category: object

    def values(self):
        return self.instruction, self.note, self.answer, self.category

    def text(self):
        return f"{self.instruction} {self.note} {self.answer}"


# --- wording ---------------------------------------------------------------------------------


def fill(rng, template):
    """Fill the place holders of a phrase with seeded names and distracting numbers."""
    city, city2 = rng.sample(WORDS["cities"], 2)
    return template.format(
        city=city,
        city2=city2,
        person=rng.choice(WORDS["people"]),
        team=rng.choice(WORDS["teams"]),
        day=rng.choice(WORDS["days"]),
        month=rng.choice(WORDS["months"]),
        n=rng.randint(2, 9),
        big=rng.randint(11, 99),
    )


def capital(phrase):
    return phrase[0].upper() + phrase[1:]


def in_words(number):
    """Spell out 1 to 99."""
    if number < 20:
        return WORDS["units"][number]
    tens, rest = WORDS["tens"][number // 10 - 2], number % 10
    return f"{tens}-{in_words(rest)}" if rest else tens


def draw_cents(rng, category, currency):
    low, high = RANGES[category]
    value = low * (high / low) ** rng.random()  # small amounts are the usual ones
    if currency == "SEK":
        value *= 10
    cents = rng.choice([0, 0, 50, 20, 90, 95, rng.randint(1, 99)])
    return int(value) * 100 + cents


def continental(number):
    """1250.5 -> 1.250,50"""
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


def render_amount(rng, cents, currency):
    """Write an amount in one of the ways people write amounts."""
    whole = cents % 100 == 0
    units = cents // 100
    if whole and units < 100 and rng.random() < 0.35:
        return in_words(units) + " " + WORDS["currency_names"][currency]
    digits = 0 if whole and rng.random() < 0.6 else 2
    return rng.choice(WORDS["amounts"][currency]).format(
        plain=f"{cents / 100:.{digits}f}",
        grouped=f"{cents / 100:,.{digits}f}",
        comma=continental(cents / 100) if digits else str(units),
    )


def draw_record(rng, category):
    """Draw one note with its ledger line."""
    currency = rng.choice(["EUR", "EUR", "USD", "GBP", "CHF", "SEK"])
    payment = rng.choice(list(WORDS["payments"]))
    cents = draw_cents(rng, category, currency)
    parts = {
        "np": fill(rng, rng.choice(WORDS["categories"][category]["np"])),
        "vp": fill(rng, rng.choice(WORDS["categories"][category]["vp"])),
        "why": fill(rng, rng.choice(WORDS["reasons"])),
        "pay": fill(rng, rng.choice(WORDS["payments"][payment])),
        "amount": render_amount(rng, cents, currency),
    }
    parts |= {name.capitalize(): capital(phrase) for name, phrase in parts.items()}
    note = rng.choice(WORDS["frames"]).format(person=rng.choice(WORDS["people"]), **parts)
    answer = f"{category} | {cents / 100:.2f} {currency} | {payment}"
    return Record(rng.choice(WORDS["instructions"]), note, answer, category)


# --- unique records --------------------------------------------------------------------------


def shingles(record, size=5):
    words = re.findall(r"\w+", record.text().lower())
    return {tuple(words[i : i + size]) for i in range(len(words) - size + 1)}


def similarity(left, right):
    return len(left & right) / len(left | right)


class Pool:
    """Draws records that differ from each other, the categories in turn."""

    def __init__(self, rng):
        self.rng = rng
        self.categories = itertools.cycle(WORDS["categories"])
        self.seen = []

    def draw(self, containing="", extra=""):
        while True:
            record = draw_record(self.rng, next(self.categories))
            record = replace(record, note=record.note + extra)
            grams = shingles(record)
            is_new = all(similarity(grams, other) < MAX_SIMILARITY for other in self.seen)
            if is_new and containing in record.note:
                self.seen.append(grams)
                return record

    def draw_many(self, count, **conditions):
        return [self.draw(**conditions) for _ in range(count)]


# --- defects of single records ---------------------------------------------------------------


def draw_long(rng, pool):
    """Draw a note with small talk after it; only a longer note can have a near copy."""
    return pool.draw(extra=" " + " ".join(rng.sample(WORDS["small_talk"], 3)))


def near_copy(rng, record):
    """Change one word of a long note or add one, in its small talk."""
    words = record.note.split()
    at = len(words) - rng.randint(7, 11)
    if rng.random() < 0.5:
        words[at] = "rather"
    else:
        words.insert(at, "really")
    copy = replace(record, note=" ".join(words))
    if similarity(shingles(copy), shingles(record)) < NEAR_DUPLICATE_SIMILARITY:
        raise ValueError(f"not a near duplicate: {copy.note}")
    return copy


def draw_repairable(pool, plan, private):
    """Draw good records with a defect that a cleaning step can repair."""
    records = []
    for kind, sentence in PII.items():
        for record in pool.draw_many(plan.get(kind, 0)):
            note = f"{record.note} {sentence.format(next(private[kind]))}"
            records.append(replace(record, note=note))
    for record in pool.draw_many(plan.get("html_escaped", 0), containing=" & "):
        records.append(replace(record, note=html.escape(record.note)))
    for record in pool.draw_many(plan.get("nfd_accent", 0), containing="é"):
        records.append(replace(record, note=unicodedata.normalize("NFD", record.note)))
    return records


def draw_unusable(pool, plan):
    """Draw records with a value that no cleaning step can repair."""
    return [
        replace(record, **values)
        for kind, values in UNUSABLE.items()
        for record in pool.draw_many(plan.get(kind, 0))
    ]


def draw_repeated(rng, plan, good, first, to_copy):
    """Repeat records of this source, records of the first one, and long notes with a change."""
    return [
        *rng.sample(good, plan["duplicate"]),
        *rng.sample(first, plan.get("cross_duplicate", 0)),
        *(near_copy(rng, next(to_copy)) for _ in range(plan["near_duplicate"])),
    ]


def draw_sources(rng, pool):
    """Return each source's records, shuffled."""
    private = {kind: itertools.cycle(values) for kind, values in PRIVATE.items()}
    good = {name: pool.draw_many(size) for name, size in SIZES.items()}
    long_notes = [draw_long(rng, pool) for _ in range(LONG_NOTES)]
    to_copy = iter(long_notes)
    sources = {}
    for name, plan in PLAN.items():
        records = good[name] + draw_repairable(pool, plan, private) + draw_unusable(pool, plan)
        records += draw_repeated(rng, plan, good[name], good["expenses"], to_copy)
        sources[name] = records + (long_notes if name == "expenses" else [])
        rng.shuffle(sources[name])
    return sources


# --- files -----------------------------------------------------------------------------------


def to_line(name, record):
    return json.dumps(dict(zip(FIELDS[name], record.values(), strict=True)), ensure_ascii=False)


def broken_lines(pool, name):
    """Make the lines that hold no record: a reader has to skip them."""
    breaks = {
        "unclosed_object": lambda record: to_line(name, record)[:-1],
        "array_line": lambda record: json.dumps(record.values(), ensure_ascii=False),
        "trailing_comma": lambda record: to_line(name, record)[:-1] + ",}",
        "blank_line": lambda _: "",
    }
    return [
        make(record).encode()
        for kind, make in breaks.items()
        for record in pool.draw_many(PLAN[name].get(kind, 0))
    ]


def invalid_line(pool, name):
    """A line with one byte that is not UTF-8."""
    record = pool.draw()
    record = replace(record, note=f"Café. {record.note}")
    return to_line(name, record).encode().replace("Café".encode(), b"Caf\xe9")


def jsonl_bytes(rng, pool, name, records):
    plan = PLAN[name]
    lines = [to_line(name, record).encode() for record in records]
    for index in rng.sample(range(len(lines)), plan.get("crlf", 0)):
        lines[index] += b"\r"
    extra = broken_lines(pool, name)
    extra += [invalid_line(pool, name) for _ in range(plan.get("invalid_utf8", 0))]
    for line in extra:
        lines.insert(rng.randrange(1, len(lines)), line)
    cut_off = to_line(name, pool.draw())[:70].encode()
    return b"\n".join([*lines, cut_off])


def write_parquet(path, records):
    columns = zip(*(record.values() for record in records), strict=True)
    table = dict(zip(FIELDS["archive"], columns, strict=True))
    table["batch"] = [1 + index // 50 for index in range(len(records))]
    pq.write_table(pa.table(table), path)


def write_sqlite(path, records, void):
    """Write posted rows and void ones; the text columns have no type, so a number stays one."""
    path.unlink(missing_ok=True)
    names = ", ".join(FIELDS["erp"])
    rows = [(*record.values(), "posted") for record in records]
    rows += [(*record.values(), "void") for record in void]
    with sqlite3.connect(path) as database:
        database.execute(f"CREATE TABLE expenses (id INTEGER PRIMARY KEY, {names}, status TEXT)")
        insert = f"INSERT INTO expenses ({names}, status) VALUES (?, ?, ?, ?, ?)"
        database.executemany(insert, rows)
    database.close()


def write_all(folder, rng, pool, sources):
    folder.mkdir(parents=True, exist_ok=True)
    expenses = jsonl_bytes(rng, pool, "expenses", sources["expenses"])
    (folder / "expenses.jsonl").write_bytes(b"\xef\xbb\xbf" + expenses)
    mobile = jsonl_bytes(rng, pool, "mobile_app", sources["mobile_app"])
    (folder / "mobile_app.jsonl.gz").write_bytes(gzip.compress(mobile, mtime=0))
    write_parquet(folder / "archive.parquet", sources["archive"])
    write_sqlite(folder / "erp.sqlite", sources["erp"], pool.draw_many(PLAN["erp"]["void_row"]))


def summary(sources):
    """Count what was planted; the rows leave out broken and void ones."""
    repairable = [*PII, "html_escaped", "nfd_accent"]
    good = {
        name: SIZES[name] + sum(plan.get(kind, 0) for kind in repairable)
        for name, plan in PLAN.items()
    }
    good["expenses"] += LONG_NOTES
    total = Counter()
    for plan in PLAN.values():
        total.update(plan)
    return {
        "unique_good_records": {**good, "total": sum(good.values())},
        "readable_rows": {name: len(records) for name, records in sources.items()},
        "defects": {**PLAN, "total": dict(total)},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("data/raw"))
    folder = parser.parse_args().folder
    rng = random.Random(SEED)
    pool = Pool(rng)
    sources = draw_sources(rng, pool)
    write_all(folder, rng, pool, sources)
    print(json.dumps(summary(sources), indent=2))


if __name__ == "__main__":
    main()
