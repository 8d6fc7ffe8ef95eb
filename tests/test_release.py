"""checks.release: what disagrees with the version of the package is named."""

from __future__ import annotations

import subprocess

import pytest

import excora
from checks.release import ROOT, disagreeing, misbuilt, untagged, version


@pytest.fixture
def tree(tmp_path):
    """A small repository that is ready."""
    for folder in ("src/excora", "studies"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "src/excora/__init__.py").write_text('__version__ = "1.2.0"\n')
    (tmp_path / "studies/pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 1.2.0\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 1.2.0\n\n## 1.1.0\n")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"], ["tag", "v1.2.0"]):
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *who, *command], check=True)
    return tmp_path


def test_a_tree_that_is_ready(tree):
    assert version(tree) == "1.2.0"
    assert disagreeing(tree) == []
    assert untagged(tree) == []


@pytest.mark.parametrize(
    ("place", "text", "found"),
    [
        ("CHANGELOG.md", "## Unreleased\n\n## 1.1.0\n", "1.1.0"),
        ("CHANGELOG.md", "## Unreleased\n", "none"),
        ("CITATION.cff", "cff-version: 1.2.0\nversion: 1.1.0\n", "1.1.0"),
        ("studies/pyproject.toml", 'version = "1.3.0"\n', "1.3.0"),
    ],
)
def test_another_version_elsewhere_is_named(tree, place, text, found):
    (tree / place).write_text(text)
    assert disagreeing(tree) == [f"{place}: expected version 1.2.0, found {found}"]
    assert "1 files are changed" in untagged(tree)[0]


def test_a_version_without_its_tag(tree):
    subprocess.run(["git", "-C", str(tree), "tag", "-d", "v1.2.0"], check=True, capture_output=True)
    assert untagged(tree) == ["this commit has no tag v1.2.0: git tag -a v1.2.0 -m v1.2.0"]


def test_a_build_that_fails_is_told(tree):
    assert "the build failed" in misbuilt(tree, tree / "dist")[0]


def test_the_version_is_that_of_the_package():
    assert version(ROOT) == excora.__version__
