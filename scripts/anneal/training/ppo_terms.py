"""The terms of PPO on language, as pure functions of tensors.

Everywhere (rows, length) counts answer tokens alone. `mask` is 1 for an answer's real tokens, its
stop token included, and 0 for the padding behind them; what is masked never reaches a result.
"""

import torch

MAX_ERROR = 0.2


def token_logprobs(logits: torch.Tensor, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability of each token that was taken, and entropy of the choice, both in nats.

    Args:
        logits: (rows, length, vocabulary), position t being the choice of token t.
        ids: (rows, length).
    """
    logprobs = logits.float().log_softmax(-1)
    taken = logprobs.gather(-1, ids.unsqueeze(-1)).squeeze(-1)
    return taken, -(logprobs.exp() * logprobs).sum(-1)


def token_rewards(
    scores: torch.Tensor, kl: torch.Tensor, mask: torch.Tensor, coefficient: float
) -> torch.Tensor:
    """Reward of each token (rows, length): -coefficient * KL, and the score at the last real token.

    `scores` is (rows,); `kl` is log pi - log reference of the tokens taken (Ziegler 2019,
    arXiv 1909.08593, eq. 2).
    """
    rewards = -coefficient * kl * mask
    last = mask.long().sum(1) - 1
    rewards[torch.arange(len(scores)), last] += scores
    return rewards


def advantages_and_returns(
    rewards: torch.Tensor, values: torch.Tensor, mask: torch.Tensor, gamma: float, lam: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Generalised advantage estimates and the returns that values are to meet, both (rows, length).

    A_t = d_t + gamma lambda A_{t+1} with d_t = r_t + gamma V_{t+1} - V_t (Schulman 2016,
    arXiv 1506.02438, eq. 16); nothing is worth anything behind the last real token.
    """
    values = values * mask
    ahead = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], dim=1)
    deltas = (rewards + gamma * ahead - values) * mask
    running, found = torch.zeros_like(deltas[:, 0]), []
    for delta in reversed(deltas.unbind(1)):
        running = delta + gamma * lam * running
        found.append(running)
    advantages = torch.stack(found[::-1], dim=1)
    return advantages, advantages + values


def whitened(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean 0 and variance 1 over the real tokens of all rows; 0 elsewhere."""
    count = mask.sum()
    mean = (values * mask).sum() / count
    variance = ((values - mean) ** 2 * mask).sum() / count
    return (values - mean) * (variance + 1e-8).rsqrt() * mask


def policy_loss(
    new: torch.Tensor, old: torch.Tensor, advantages: torch.Tensor, mask: torch.Tensor, clip: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums over real tokens: the clipped surrogate (Schulman 2017, arXiv 1707.06347, eq. 7) with
    its sign turned, and the number of tokens whose ratio was clipped.

    Args:
        new, old: log-probabilities of the tokens taken, now and when they were taken.
    """
    ratio = (new - old).exp()
    free = -advantages * ratio
    held = -advantages * ratio.clamp(1 - clip, 1 + clip)
    return (torch.maximum(free, held) * mask).sum(), ((held > free) * mask).sum()


def value_loss(
    new: torch.Tensor, old: torch.Tensor, returns: torch.Tensor, mask: torch.Tensor, clip: float
) -> torch.Tensor:
    """Sum over real tokens of half the squared error, the worse of the value as it is and kept
    within `clip` of what it was at the rollout (as in OpenAI's baselines, ppo2)."""
    held = old + (new - old).clamp(-clip, clip)
    return 0.5 * (torch.maximum((new - returns) ** 2, (held - returns) ** 2) * mask).sum()


def next_coefficient(
    coefficient: float, kl: float, target: float, answers: int, horizon: int
) -> float:
    """The KL's coefficient after `answers` answers whose mean KL was `kl`.

    A proportional controller in log space, its error cut at 20 % (Ziegler 2019, section 2.2).
    """
    error = min(max(kl / target - 1, -MAX_ERROR), MAX_ERROR)
    return coefficient * (1 + error * answers / horizon)
