"""The terms of PPO equal plain NumPy that goes through answers and tokens one by one."""

import numpy as np
import pytest
import torch

from anneal.training.ppo_terms import (
    advantages_and_returns,
    next_coefficient,
    policy_loss,
    token_logprobs,
    token_rewards,
    value_loss,
    whitened,
)
from anneal.training.rollouts import shuffled

SEEDS = range(8)


def answers(seed: int) -> tuple[np.random.Generator, np.ndarray]:
    """A generator, and the mask of a few answers of random lengths."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 8, rng.integers(1, 6))
    return rng, (np.arange(7) < lengths[:, None]).astype(np.float32)


def tensors(*arrays: np.ndarray) -> list[torch.Tensor]:
    return [torch.from_numpy(np.asarray(array, np.float32)) for array in arrays]


def real(mask: np.ndarray):
    return [(row, t) for row in range(len(mask)) for t in range(int(mask[row].sum()))]


@pytest.mark.parametrize("seed", SEEDS)
def test_logprobs_and_entropies_are_those_of_the_softmax(seed):
    rng, mask = answers(seed)
    logits = rng.normal(0, 3, (*mask.shape, 11)).astype(np.float32)
    ids = rng.integers(0, 11, mask.shape)
    found, entropies = token_logprobs(torch.from_numpy(logits), torch.from_numpy(ids))
    for row, t in real(mask):
        shares = np.exp(logits[row, t]) / np.exp(logits[row, t]).sum()
        assert found[row, t].item() == pytest.approx(np.log(shares[ids[row, t]]), abs=1e-4)
        entropy = -(shares * np.log(shares)).sum()
        assert entropies[row, t].item() == pytest.approx(entropy, abs=1e-4)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_score_comes_at_the_last_real_token_and_the_kl_at_each(seed):
    rng, mask = answers(seed)
    scores, kl = rng.normal(size=len(mask)), rng.normal(size=mask.shape)
    found = token_rewards(*tensors(scores, kl, mask), 0.3).numpy()
    wanted = np.zeros(mask.shape)
    for row, t in real(mask):
        last = t == int(mask[row].sum()) - 1
        wanted[row, t] = -0.3 * kl[row, t] + (scores[row] if last else 0)
    assert np.allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 0.95), (0.9, 0.5), (1.0, 1.0), (0.99, 0.0)])
def test_advantages_are_the_sums_of_discounted_errors(seed, gamma, lam):
    rng, mask = answers(seed)
    rewards, values = rng.normal(size=mask.shape) * mask, rng.normal(size=mask.shape)
    advantages, returns = advantages_and_returns(*tensors(rewards, values, mask), gamma, lam)
    wanted = np.zeros(mask.shape)
    for row, t in real(mask):
        length = int(mask[row].sum())
        for k in range(t, length):
            ahead = values[row, k + 1] if k + 1 < length else 0.0
            error = rewards[row, k] + gamma * ahead - values[row, k]
            wanted[row, t] += (gamma * lam) ** (k - t) * error
    assert np.allclose(advantages.numpy(), wanted, atol=1e-5)
    assert np.allclose(returns.numpy(), (wanted + values) * mask, atol=1e-5)


def test_with_lambda_1_a_return_is_what_still_came():
    rewards = torch.tensor([[1.0, 2.0, 4.0, 0.0]])
    mask, values = torch.tensor([[1.0, 1.0, 1.0, 0.0]]), torch.tensor([[3.0, -1.0, 7.0, 9.0]])
    _, returns = advantages_and_returns(rewards, values, mask, 1.0, 1.0)
    assert returns.tolist() == [[7.0, 6.0, 4.0, 0.0]]


@pytest.mark.parametrize("seed", SEEDS)
def test_whitened_values_have_mean_0_and_variance_1_over_real_tokens(seed):
    rng, mask = answers(seed)
    mask[0, :2] = 1
    values = rng.normal(5, 3, mask.shape)
    found = whitened(*tensors(values, mask)).numpy()
    kept = values[mask == 1]
    assert np.allclose(found[mask == 1], (kept - kept.mean()) / kept.std(), atol=1e-3)
    assert (found[mask == 0] == 0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_policy_loss_is_the_clipped_surrogate(seed):
    rng, mask = answers(seed)
    new, old, advantages = (rng.normal(0, s, mask.shape) for s in (0.3, 0.3, 1.0))
    found, clipped = policy_loss(*tensors(new, old, advantages, mask), 0.2)
    loss, count = 0.0, 0
    for row, t in real(mask):
        ratio, advantage = np.exp(new[row, t] - old[row, t]), advantages[row, t]
        held = min(max(ratio, 0.8), 1.2)
        loss -= min(ratio * advantage, held * advantage)
        count += ratio * advantage > held * advantage
    assert found.item() == pytest.approx(loss, abs=1e-4)
    assert clipped.item() == count


@pytest.mark.parametrize("seed", SEEDS)
def test_the_value_loss_is_the_worse_of_free_and_held(seed):
    rng, mask = answers(seed)
    new, old, returns = (rng.normal(size=mask.shape) for _ in range(3))
    found = value_loss(*tensors(new, old, returns, mask), 0.2)
    loss = 0.0
    for row, t in real(mask):
        held = old[row, t] + min(max(new[row, t] - old[row, t], -0.2), 0.2)
        worse = max((new[row, t] - returns[row, t]) ** 2, (held - returns[row, t]) ** 2)
        loss += worse / 2
    assert found.item() == pytest.approx(loss, abs=1e-4)


@pytest.mark.parametrize("start", [0.001, 0.2, 50.0])
def test_the_controller_brings_the_kl_to_its_target(start):
    coefficient = start
    for _ in range(400):
        kl = 1.5 / coefficient
        coefficient = next_coefficient(coefficient, kl, target=6.0, answers=64, horizon=256)
    assert 1.5 / coefficient == pytest.approx(6.0, rel=0.01)


def test_one_step_of_the_controller_is_at_most_a_fifth_of_its_share():
    assert next_coefficient(1.0, 600.0, 6.0, 50, 100) == pytest.approx(1.1)
    assert next_coefficient(1.0, 0.0, 6.0, 50, 100) == pytest.approx(0.9)
    assert next_coefficient(1.0, 6.6, 6.0, 50, 100) == pytest.approx(1.05)


def test_prompts_go_round_once_a_pass_whatever_the_batch():
    whole = shuffled(10, 0, 30, seed=3)
    for at in (0, 10, 20):
        assert sorted(whole[at : at + 10]) == list(range(10))
    assert whole[:10] != whole[10:20]
    assert [row for at in range(0, 28, 4) for row in shuffled(10, at, 4, seed=3)] == whole[:28]
