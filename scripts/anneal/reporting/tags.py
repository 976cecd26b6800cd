"""Versions and stages of runs as git tags, which GTO and DVC's artifact registry read too.

A tag names a commit, so the commit must hold the model: dvc.yaml names the run as an artifact,
dvc.lock has its present bytes, and nothing in git waits to be committed.
"""

import re
from pathlib import Path

from dvc.exceptions import NotDvcRepoError
from dvc.repo import Repo
from gto import api
from gto.exceptions import ArtifactNotFound, GTOException
from scmrepo.exceptions import SCMError

from anneal.errors import UserError

HERE = "."


def versions(run: str) -> list[dict]:
    """Registered versions of a run, newest first: `version`, `stages`, `fingerprint`, `commit`."""
    try:
        found = api.show(HERE, run)
    except (ArtifactNotFound, SCMError):
        return []
    return [
        {
            "version": version["version"],
            "commit": version["commit_hexsha"],
            "stages": [stage["stage"] for stage in version["stages"]],
            "fingerprint": next(iter(re.findall(r"fingerprint: (\w+)", version["message"])), None),
        }
        for version in found
        if version["registrations"]
    ]


def promote(run: str, stage: str, standing: dict, because: str | None) -> str:
    """Register this commit's version of a run where it has none, and assign it to a stage.

    Args:
        standing: of the run, see `standings`.
        because: why it is promoted in spite of problems; kept in the tag with the problems.

    Returns:
        the version, such as v0.0.1.

    Raises:
        UserError: something speaks against it and no reason is given, or git or GTO refuse.
    """
    problems = standing["problems"] + uncommitted(run)
    if problems and not because:
        do = "mend that, or say why it is promoted all the same: --because REASON"
        raise UserError(run, f"not promoted to {stage}: {'; '.join(problems)}", do)
    message = described(standing, problems, because)
    try:
        head = {v["version"] for v in versions(run) if v["commit"] == Repo(HERE).scm.get_rev()}
        version = max(head) if head else api.register(HERE, run, "HEAD", message=message).version
        api.assign(HERE, run, stage, version=version, message=message)
    except (GTOException, SCMError) as error:
        raise UserError(run, str(error), "see `gto show` and `git tag`") from None
    return version


def uncommitted(run: str) -> list[str]:
    """Why the present commit does not hold the present model, if it does not."""
    try:
        repo = Repo(HERE)
    except NotDvcRepoError:
        return ["no DVC repository here holds the model"]
    named = [a[run].path for a in repo.artifacts.read().values() if run in a]
    status = repo.data_status(untracked_files="no")
    found = [] if named else [f"dvc.yaml names no artifact '{run}'"]
    changed = [Path(path) for paths in status["uncommitted"].values() for path in paths]
    if any(Path(path).is_relative_to(out) for path in named for out in changed):
        found.append("dvc.lock does not have the present model (`dvc commit`)")
    return found + (["git has uncommitted changes"] if status["git"]["is_dirty"] else [])


def described(standing: dict, problems: list[str], because: str | None) -> str:
    """The tag's message: what was promoted, and why in spite of what."""
    scores = standing["scores"].items()
    lines = [
        f"fingerprint: {standing['fingerprint']}",
        f"kept step: {standing['kept_step']}",
        *(f"{task}: {base} -> {tuned}" for task, (base, tuned) in scores),
        *(f"problem: {problem}" for problem in problems),
        *([f"because: {because}"] if because else []),
    ]
    return "\n".join(lines)
