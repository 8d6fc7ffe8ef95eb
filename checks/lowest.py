"""The oldest versions that pyproject.toml allows, in a fresh environment: does what people use first work there?

``python -m checks.lowest [pytest arguments]``, or ``make lowest``: installs every requirement of the package and of the
extras in EXTRAS at its lower bound, what those require as pip chooses it, and the package itself; then it runs TESTS.
``torch.compile`` and ``torch.export`` of every pool, loss and layer are among them; LEFT_OUT names what is not.
torch comes without NVIDIA's libraries (checks/cuda_stubs.py): 0.9 GB to fetch in place of 3.5. The environment is made
in a temporary folder and removed; EXCORA_LOWEST names a folder that keeps it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from .cuda_stubs import stub

ROOT = Path(__file__).parent.parent
EXTRAS = ("app", "compare", "fast", "index", "tensorboard")
TOOLS = ("pytest", "pytest-xdist", "hypothesis")  # of the extra dev, at their lower bounds too
PLACES = {
    "tests": ("pooling", "kernels", "stats", "test_attention.py", "test_attention_transforms.py"),
    "tests/data": ("table",),
    "tests/test": ("functional", "ragged", "reduce", "moments", "losses", "metrics", "accumulation"),
    "tests/contracts/test": ("pools",),
    "tests/training/test": ("engine", "trainer"),
    "tests/application/test": ("fitting", "predicting", "old_runs"),
    "tests/comparison/test": ("core",),
    "tests/estimators/test": ("bags", "files"),
    "tests/cli/test": ("fit", "predict", "compare", "main"),
}
TESTS = [f"{k}_{n}.py" if k.endswith("test") else f"{k}/{n}" for k, names in PLACES.items() for n in names]
#: torch 2.8's own linear layer does not take a fake tensor of symbolic shape.
LEFT_OUT = ("tests/test_attention_transforms.py::test_fake_tensors_of_symbolic_shape",)
#: Old packages beside new ones of other people warn: of no interest here, where warnings are errors otherwise.
QUIET = [f"-Wignore::{kind}" for kind in ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning")]


def bounds() -> list[str]:
    """``name==lowest`` for each ``name>=lowest``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *(item for extra in EXTRAS for item in extras[extra])]
    asked += [item for item in extras["dev"] if item.split(">=")[0] in TOOLS]
    return sorted({re.sub(r">=([\w.]+).*", r"==\1", item) for item in asked})


def call(*command: str | Path) -> None:
    print("+", *(str(part).replace(str(ROOT), ".") for part in command), flush=True)
    subprocess.run([str(part) for part in command], check=True)


def install(folder: Path, pins: list[str]) -> Path:
    """The Python of a fresh environment with these pins, torch first and without what it asks of NVIDIA."""
    call(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir"]
    call(*pip, "--no-deps", *(pin for pin in pins if pin.startswith("torch==")))
    [site] = folder.glob("lib/python*/site-packages")
    [metadata] = site.glob("torch-*.dist-info/METADATA")
    kept = [line for line in metadata.read_text().split("\n") if not re.match(r"Requires-Dist: (nvidia|triton)", line)]
    metadata.write_text("\n".join(kept))  # else pip fetches them with whatever requires torch
    stub(site / "torch" / "lib")
    call(*pip, *pins)
    call(*pip, "--no-deps", ROOT)
    return python


def main(arguments: list[str]) -> int:
    pins = bounds()
    print("\n".join(pins))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(os.environ.get("EXCORA_LOWEST", temporary)) / "env"
        python = folder / "bin" / "python"
        if not python.exists():
            install(folder, pins)
        # The tests find tests/ and checks/ through pytest's settings, and the package where it was installed.
        skipped = [f"--deselect={name}" for name in LEFT_OUT]
        command = [str(python), "-m", "pytest", *QUIET, *skipped, *(arguments or TESTS)]
        done = subprocess.run(command, cwd=ROOT, check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
