"""The plan as Markdown."""

from collections.abc import Iterator

HEAD = """# Plan of {project}

Estimates, made without a GPU and without loading weights; how, and how well they agree with what
was measured, is in docs/plan.md. Nothing here was started.
"""


def page(project: str, plans: list[dict]) -> str:
    """All runs, one section each."""
    return HEAD.format(project=project) + "".join(
        line + "\n" for plan in plans for line in _section(plan)
    )


def _section(plan: dict) -> Iterator[str]:
    yield f"\n## {plan['run']}\n"
    if plan["refusal"]:
        yield f"**Refused.** {plan['refusal']}\n"
    chosen = plan["recommended"]
    yield "Recommended: " + ", ".join(f"{k} `{v}`" for k, v in chosen.items()) + "."
    yield from (f"- {line}" for line in plan["differences"])
    yield "\n| question | answer | so | because |\n| --- | --- | --- | --- |"
    for branch in plan["branches"]:
        yield "| {question} | {answer} | {choose} | {why} |".format(**branch)
    yield from _memory(plan)
    yield from _work(plan)
    yield from _start(plan)


def _memory(plan: dict) -> Iterator[str]:
    device, memory = plan["device"], plan["memory"]
    shape = plan["shape"]
    yield (
        f"\n{shape['weights']:,} weights, {shape['trained']:,} of them trained. On each "
        f"{device['title']} ({device['memory_gb']:g} GB): **{plan['verdict']}**\n"
    )
    yield "| part | GB |\n| --- | ---: |"
    for name, size in memory.items():
        if name != "host":
            yield f"| {name.replace('_', ' ')} | {_gb(size)} |"
    yield f"\nIn the machine's memory, for each process: {_gb(memory['host'])} GB."


def _work(plan: dict) -> Iterator[str]:
    data, work, disk = plan["data"], plan["work"], plan["disk"]
    tokens = "unknown" if data["tokens"] is None else f"{data['tokens']:,}"
    yield f"\n- Data: {tokens} training tokens, {data['how']}"
    yield "- Batch: {global_batch} = {micro_batch} x {accumulation} x {processes}".format(
        **plan["batch"]
    )
    if work["steps"]:
        seen = f", {work['tokens']:,} tokens" if work["tokens"] else ""
        yield f"- Steps: {work['steps']:,}{seen}"
    if work["hours"] is None:
        yield "- Time: not estimated (the data's length or the sampling is not known)"
    else:
        yield (
            f"- Time: {work['hours']:,.3g} h, {work['device_hours']:,.3g} device hours, cost "
            f"{work['cost']:,.2f} at {plan['device']['price_per_hour']:g} an hour; assumed: "
            f"{work['utilisation']:.0%} of {plan['device']['bf16_tflops']:g} TFLOPS"
        )
    yield (
        f"- Disk: checkpoints {_gb(disk['checkpoints'])} GB ({_gb(disk['checkpoint'])} GB each), "
        f"result {_gb(disk['result'])} GB, base {_gb(disk['base'])} GB in 16 bits"
    )
    yield from (f"- Network: {line}" for line in plan["network"])


def _start(plan: dict) -> Iterator[str]:
    asked = plan["slurm"]["request"].items()
    yield "- Slurm: " + ", ".join(f"{key} {value}" for key, value in asked)
    yield from (f"- Slurm: {line}" for line in plan["slurm"]["advice"])
    if plan.get("command"):
        yield f"\nStarted by (printed, not run):\n\n```bash\n{plan['command']}\n```"


def _gb(size: float) -> str:
    return f"{size / 1e9:,.3g}"
