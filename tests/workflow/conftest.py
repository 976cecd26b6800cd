"""A project run to its end once with a tiny random model; tests copy it before they change it."""

import pytest
from project import Project, write_project


@pytest.fixture(scope="session")
def finished(tmp_path_factory, tiny_model) -> Project:
    """A project that ran to its report. Tests copy it before they change anything."""
    folder = tmp_path_factory.mktemp("runs") / "a project, with spaces"
    write_project(folder, tiny_model)
    return Project(folder).finish()


@pytest.fixture
def project(finished, tmp_path) -> Project:
    """A copy of the finished project, to be changed."""
    return finished.copy(tmp_path / "a copy")
