"""Patience with a Slurm that does not answer.

The Slurm plugin (2.8.0) forgets all jobs of a status check that fails, and then waits for ever.
"""

import asyncio

ASKED = ("scontrol", "show", "config")
PAUSE_S = 10


def be_patient(executor) -> None:
    """Let each status check of the executor wait until Slurm's controller answers."""
    check = executor.check_active_jobs

    async def check_when_answered(jobs):
        while jobs and not await _answers():
            await asyncio.sleep(PAUSE_S)
        async for job in check(jobs):
            yield job

    executor.check_active_jobs = check_when_answered


async def _answers() -> bool:
    silent = {"stdout": asyncio.subprocess.DEVNULL, "stderr": asyncio.subprocess.DEVNULL}
    asked = await asyncio.create_subprocess_exec(*ASKED, **silent)
    return await asked.wait() == 0
