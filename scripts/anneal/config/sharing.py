"""Which runs several processes can share: what was not seen working is refused here."""

LEARNS_FROM_TEXT = ("sft", "pretrain", "continue")
LEARNS_FROM_PAIRS = ("dpo", "reward", "orpo")


def cannot_share(run) -> str | None:
    """Why a run's strategy does not go with its method, tuning or settings; None if it does."""
    strategy, method, tuning = run.strategy, run.method, run.tuning.kind
    if strategy.kind == "ddp":
        if method not in (*LEARNS_FROM_TEXT, *LEARNS_FROM_PAIRS):
            return f"method '{method}' trains in one process; set kind to 'single'"
        return None
    if method not in LEARNS_FROM_TEXT:
        known = ", ".join(LEARNS_FROM_TEXT)
        return f"method '{method}' is not shared so; use 'ddp', or a method of {known}"
    if strategy.kind == "tensor_parallel" and tuning != "full":
        return f"tuning '{tuning}' is not split so; use full, or fsdp"
    if tuning not in ("full", "lora"):
        return f"tuning '{tuning}' is not shared so; use 'ddp', or tuning full or lora"
    if run.training.optim not in ("adamw_torch", "adamw_torch_fused"):
        return f"optim '{run.training.optim}' holds its state whole; use adamw_torch"
    if not strategy.resumes and run.training.load_best:
        return "it keeps no checkpoints; set training.load_best to false"
    return None
