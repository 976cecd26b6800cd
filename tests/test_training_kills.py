"""Every method, killed with -9 at twenty random moments, ends with the bytes of an undisturbed run.

The process that is killed is forked from one that has imported torch and done nothing else.
"""

import multiprocessing
import random
import shutil
import time
from types import SimpleNamespace

import online
import pytest
import runs
import test_training_pairs as pairs

import train_run
from anneal.cli import step
from anneal.provenance.files import write_json

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(["train_run", "anneal.training.train"])
KILLS = 20
LONG = {"max_steps": 40, "save_steps": 3, "eval_steps": 7}
SHORT = {"max_steps": 12, "save_steps": 2, "eval_steps": 5}


def learning_from_text(folder, tiny_model, method: str, kind: str):
    given = runs.settings(**LONG)
    given["method"] = method
    given["tuning"]["kind"] = kind
    return given, tiny_model, runs.write_splits(folder / "splits")


def learning_from_pairs(folder, tiny_model, method: str, kind: str):
    return pairs.settings(method, kind, **LONG), tiny_model, pairs.write_pairs(folder / "splits")


def learning_online(folder, tiny_model, method: str, kind: str):
    more = {"rollout_size": 16} if method == "ppo" else {"generations": 4}
    given = online.settings(method, more, {"kind": kind}, **SHORT)
    base = online.stopping_model(tiny_model, folder / "stopping")
    return given, base, online.write_prompts(folder / "splits")


CASES = {
    **{f"sft, {kind}": (learning_from_text, "sft", kind) for kind in ("lora", "full", "adapter")},
    "pretrain": (learning_from_text, "pretrain", "full"),
    "continue": (learning_from_text, "continue", "lora"),
    **{name: (learning_from_pairs, name, "lora") for name in ("dpo", "kto", "orpo", "reward")},
    **{name: (learning_online, name, "lora") for name in ("ppo", "grpo", "rloo")},
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", CASES)
def test_twenty_kills_at_random_moments_change_no_byte(tiny_model, tmp_path, case):
    make, method, kind = CASES[case]
    given, base, splits = make(tmp_path, tiny_model, method, kind)
    base = shutil.copytree(base, tmp_path / "base")
    write_json(base / "manifest.json", {"outputs": {"base": "b"}, "facts": {}})
    write_json(splits / "manifest.json", {"outputs": {"splits": "s"}})
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    seconds = attempt(whole, base, splits, given)
    assert seconds is not None
    chance, kills = random.Random(case), 0
    while kills < KILLS:
        if attempt(killed, base, splits, given, chance.uniform(0, 0.7 * seconds)) is None:
            kills += 1
        else:
            assert weights(killed) == weights(whole)
            shutil.rmtree(killed)
    assert attempt(killed, base, splits, given) is not None
    assert weights(killed) == weights(whole)


def attempt(folder, base, splits, given: dict, limit: float = 600) -> float | None:
    """Seconds that a run took to its end; None if it was killed at its limit."""
    arguments = SimpleNamespace(
        step=step("{}"),
        base=base / "manifest.json",
        splits=splits / "manifest.json",
        checkpoints=folder / "checkpoints",
        manifest=folder / "run" / "manifest.json",
        **{"tracker": "none", "trackers": None, "threads": 1},
        **{"reward": None, "best": None, "adapters": []},
    )
    arguments.step.settings = given
    started = time.monotonic()
    process = SERVER.Process(target=train_run.main, args=(arguments,))
    process.start()
    process.join(limit)
    if process.exitcode is None:
        process.kill()
        process.join()
        return None
    assert process.exitcode == 0
    return time.monotonic() - started


def weights(folder) -> dict[str, bytes]:
    files = [*(folder / "run" / "model").glob("*.safetensors"), folder / "run" / "metrics.jsonl"]
    return {file.name: file.read_bytes() for file in sorted(files)}
