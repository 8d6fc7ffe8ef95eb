"""Is this tree ready to be published? ``python -m checks.release``, the last step of ``make release-check``.

The version stands in src/excora/__init__.py and nowhere else in the package; what must agree with it is checked here:
the studies, the citation, a heading in the changelog, the tag of the commit, and the wheel and sdist that are built.
The files are left in dist/; publishing them is done by hand (CONTRIBUTING.md).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from packaging.metadata import Metadata

ROOT = Path(__file__).parent.parent
#: Where the version must stand, and how it is written there.
PLACES = {
    "studies/pyproject.toml": r'^version = "(.*)"$',
    "CITATION.cff": r"^version: (.*)$",
    "CHANGELOG.md": r"^## ([\d.]+\w*)",  # the first heading that is a version
}


def version(root: Path) -> str:
    """The one of the package."""
    text = (root / "src" / "excora" / "__init__.py").read_text(encoding="utf-8")
    [found] = re.findall(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    return str(found)


def disagreeing(root: Path) -> list[str]:
    """What names another version, or none."""
    wanted, problems = version(root), []
    for place, pattern in PLACES.items():
        found = re.search(pattern, (root / place).read_text(encoding="utf-8"), re.MULTILINE)
        if found is None or found[1] != wanted:
            problems.append(f"{place}: expected version {wanted}, found {found[1] if found else 'none'}")
    return problems


def untagged(root: Path) -> list[str]:
    """What git has against it: changes that are not committed, or no tag ``vVERSION`` at this commit."""
    wanted = f"v{version(root)}"
    changed = _git(root, "status", "--porcelain").splitlines()
    problems = [f"{len(changed)} files are changed or unknown to git: commit or remove them"] if changed else []
    if wanted not in _git(root, "tag", "--points-at", "HEAD").split():
        problems.append(f"this commit has no tag {wanted}: git tag -a {wanted} -m {wanted}")
    return problems


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True).stdout


def misbuilt(root: Path, folder: Path) -> list[str]:
    """Build wheel and sdist into a folder, emptied first; what is wrong with them."""
    shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(root)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        return [f"the build failed: {built.stderr.strip()[-500:]}"]
    wanted = version(root)
    expected = {f"excora-{wanted}-py3-none-any.whl", f"excora-{wanted}.tar.gz"}
    found = {path.name for path in folder.iterdir()}
    if found != expected:
        return [f"expected {sorted(expected)}, the build gave {sorted(found)}"]
    with zipfile.ZipFile(folder / f"excora-{wanted}-py3-none-any.whl") as wheel:
        text = wheel.read(f"excora-{wanted}.dist-info/METADATA")
    metadata = Metadata.from_email(text, validate=True)  # an invalid field is an error, as it is at the index
    return [] if metadata.description else ["the wheel has no description: is README.md the readme?"]


def main() -> int:
    problems = [*disagreeing(ROOT), *untagged(ROOT), *misbuilt(ROOT, ROOT / "dist")]
    print("\n".join(problems) or f"excora {version(ROOT)} is ready: dist/ holds what is to be published")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
