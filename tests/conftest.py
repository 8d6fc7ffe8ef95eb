"""Shared set-up of the tests. The environment is set before torch is imported anywhere."""

from __future__ import annotations

import os

# Some CPUs die on a bf16 matmul with an illegal instruction unless oneDNN is told to stay below AMX.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # two test workers share two cores, with the processes that they start
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import functools
import gc
import itertools

import pytest
import torch
from hypothesis import HealthCheck, settings
from lightning.fabric.utilities import registry

settings.register_profile(
    "excora", deadline=None, max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("excora")
torch.set_num_threads(1)
registry.entry_points = functools.cache(registry.entry_points)  # a trainer reads those of all packages: 10 ms each time
os.fsync = lambda _: None  # nobody pulls the plug; some 15 a run, of 10 ms each


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put tests marked ``long`` first: one that begins last leaves the other workers idle.

    Each worker begins with an equal share of the list, in its order, and takes over what others have left. The long
    ones, a file at a time for the sake of its fixtures, are dealt out to the beginnings of the shares; all else keeps
    its order.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    long = [item for item in items if item.get_closest_marker("long")]
    files = [list(group) for _, group in itertools.groupby(long, key=lambda item: item.path)]
    rest = [item for item in items if not item.get_closest_marker("long")]
    size = len(items) // workers
    items.clear()
    for worker in range(workers):
        first = list(itertools.chain.from_iterable(files[worker::workers]))
        count = max(size - len(first), 0) if worker < workers - 1 else len(rest)
        items += first + rest[:count]
        rest = rest[count:]


def pytest_collection() -> None:
    """Look for no garbage among what is imported: it takes a quarter of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From here on look for it among what is new: modules stay, also in the memory that forks share."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def _cache(tmp_path_factory) -> None:
    """What is computed once and kept stays out of the user's folders."""
    os.environ["EXCORA_CACHE"] = str(tmp_path_factory.mktemp("cache"))
