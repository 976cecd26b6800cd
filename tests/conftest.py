"""Fixtures that several tests share."""

import json
import os
from pathlib import Path

import pytest
from tiny import make_model, make_tokenizer

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory) -> Path:
    """Folder of a tiny random model with tokenizer and ChatML template."""
    folder = make_tokenizer(tmp_path_factory.mktemp("tiny model"))
    make_model(folder)
    return folder


@pytest.fixture
def jsonl(tmp_path):
    """Write a JSONL file of rows; returns its path."""

    def write(rows: list[dict], name: str = "rows.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        return path

    return write
