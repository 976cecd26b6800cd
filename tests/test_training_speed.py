"""Tokens per second: what a model reads in one step."""

from types import SimpleNamespace

import datasets

from anneal.config.strategy import Strategy
from anneal.training.speed import MeasureSpeed, mean_tokens


def test_a_pair_is_read_as_its_prompt_twice_and_both_answers():
    pair = {"prompt_ids": [1, 2, 3], "chosen_ids": [4], "rejected_ids": [5, 6], "length": 5}
    other = pair | {"prompt_ids": [1], "length": 3}
    assert mean_tokens(datasets.Dataset.from_list([pair, other])) == (9 + 5) / 2


def test_a_sequence_is_read_once():
    rows = datasets.Dataset.from_list([{"length": 8}, {"length": 4}])
    assert mean_tokens(rows) == 6


def test_an_online_step_reads_its_prompts_and_the_answers_that_it_drew():
    training = {"global_batch_size": 4}
    rows = datasets.Dataset.from_list([{"length": 6}])
    job = SimpleNamespace(settings={"method": "grpo"}, training=training, train_rows=rows)
    job.streamed, job.strategy = False, Strategy()
    speed, state = MeasureSpeed(job), SimpleNamespace(global_step=0)
    speed.on_train_begin(None, state, None)
    speed.last = 0, speed.began - 2
    state.global_step = 1
    speed.on_log(None, state, None, logs={"loss": 0.1, "answer_length": 4.0})
    assert 0.9 * 20 <= speed.points[0]["tokens_per_second"] <= 20
