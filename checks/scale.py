"""What docs/scale.md says, tried on this machine: ``python -m checks.scale [cost] [ranks] [nodes] [array]``.

- ``cost``: CPU seconds of one training step of ECAPool with a linear head against bags, elements and width, and of
  reading features from a memory-mapped file; CPU time, so that other work on the machine counts little. Then, on paper,
  a million slides.
- ``ranks``: a step under DistributedDataParallel over 1 to 8 gloo ranks of as many bags each: CPU time of a rank, how
  much of it is communication, how many numbers the loss reduces, and how far the gradient is from that of one process.
- ``nodes``: two nodes of one process each on loopback, by torchrun and by hand, against one process: the largest
  difference of the predictions, in standard deviations.
- ``array``: a task of the job array of the page, killed in the middle and started again, against one that was not.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from excora import ECAPool, JointLoss, Run, predict

BASE = {"bags": 16, "elements": 1000, "width": 256}
GROWTH = {"bags": (16, 32, 64, 128), "elements": (1000, 4000, 16000, 64000), "width": (256, 512, 1024, 2048)}
SLIDES, PATCHES, DIM = 1_000_000, 10_000, 1024
RANKS, STEPS = (1, 2, 4, 8), 20
PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
FIT = ["fit", "t.csv", "--target", "y", "--model", "pool", "--start", "none", "--layers", "0", "--no-baselines"]


def step_seconds(bags: int, elements: int, width: int) -> float:
    """CPU seconds of a step, the smallest of three, after one that warms up."""
    torch.manual_seed(0)
    h, y = torch.randn(bags, elements, width), torch.randn(bags)
    pool, head, loss = ECAPool(width), nn.Linear(width, 1), JointLoss(weight=0.5)
    optimizer = torch.optim.AdamW([*pool.parameters(), *head.parameters()])
    times = []
    for _ in range(4):
        start = time.process_time()
        pooled = pool(h)
        optimizer.zero_grad()
        loss(head(pooled.value).squeeze(1), y, penalty=pooled.penalty).backward()
        optimizer.step()
        times.append(time.process_time() - start)
    return min(times[1:])


def read_seconds(patches: int, width: int) -> float:
    """CPU seconds to copy one slide's float32 features out of a memory-mapped file, the smallest of five."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "features.npy"
        np.save(path, np.ones((patches, width), np.float32))
        out, times = np.empty((patches, width), np.float32), []
        for _ in range(5):
            start = time.process_time()
            out[:] = np.load(path, mmap_mode="r")
            times.append(time.process_time() - start)
        return min(times)


def cost() -> None:
    torch.set_num_threads(1)
    for name, values in GROWTH.items():
        found = [step_seconds(**{**BASE, name: value}) for value in values]
        shown = ", ".join(f"{value}: {1000 * seconds:.1f} ms" for value, seconds in zip(values, found, strict=True))
        more, cost_more = values[-1] / values[-2], found[-1] / found[-2]
        print(f"{name} (else {BASE}): {shown}; the last {more:.0f} x cost {cost_more:.1f} x")
    seconds = step_seconds(4, PATCHES, DIM) / 4
    read = read_seconds(PATCHES, DIM)
    print(
        f"a slide of {PATCHES} patches of {DIM}: step {seconds:.3f} s, reading {read:.3f} s of CPU, float32, one thread"
    )
    hours, size = SLIDES * (seconds + read) / 3600, SLIDES * PATCHES * DIM * 2 / 1e12
    print(f"on paper, an epoch of {SLIDES} slides: {hours:.0f} core hours, {size:.0f} TB of features in half precision")


class Regressor(nn.Module):
    """A pool and a linear head, whose parameters no other rank shares yet."""

    def __init__(self, width: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.pool, self.head = ECAPool(width), nn.Linear(width, 1)

    def forward(self, h: Tensor) -> tuple[Tensor, Tensor | None]:
        pooled = self.pool(h)
        return self.head(pooled.value).squeeze(1), pooled.penalty


def batch(rank: int) -> tuple[Tensor, Tensor]:
    """The bags of one rank."""
    generator = torch.Generator().manual_seed(rank)
    h = torch.randn(BASE["bags"], BASE["elements"], BASE["width"], generator=generator)
    return h, torch.randn(BASE["bags"], generator=generator)


def gradient(model: nn.Module, h: Tensor, y: Tensor) -> Tensor:
    """Of a step, in one vector."""
    model.zero_grad()
    prediction, penalty = model(h)
    JointLoss(weight=0.5)(prediction, y, penalty=penalty).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def one_rank(rank: int, ranks: int, folder: str) -> None:
    """Steps of one of ``ranks`` processes; the first writes what it found."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks)
    model = DistributedDataParallel(Regressor(BASE["width"]))
    h, y = batch(rank)
    gradient(model, h, y)
    with mock.patch.object(dist, "all_reduce", wraps=dist.all_reduce) as reduce:
        found = gradient(model, h, y)
    sent = sum(call.args[0].numel() for call in reduce.call_args_list)
    start = time.process_time()
    for _ in range(STEPS):
        gradient(model, h, y)
    seconds = (time.process_time() - start) / STEPS
    if rank == 0:
        torch.save({"seconds": seconds, "gradient": found, "sent": sent}, f"{folder}/found.pt")
    dist.barrier()
    dist.destroy_process_group()


def ranks() -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    for many in RANKS:
        with tempfile.TemporaryDirectory() as folder:
            spawn(one_rank, (many, folder), nprocs=many)
            found = torch.load(f"{folder}/found.pt", weights_only=True)
        bags = [batch(rank) for rank in range(many)]
        whole = gradient(Regressor(BASE["width"]), torch.cat([h for h, _ in bags]), torch.cat([y for _, y in bags]))
        apart = float((found["gradient"] - whole).norm() / whole.norm())
        print(
            f"{many} ranks of {BASE['bags']} bags: {1000 * found['seconds']:.1f} CPU ms a step and rank, the loss "
            f"sends {found['sent']} numbers besides the gradient's {whole.numel()}, gradient {apart:.0e} from one's"
        )


def environment(**more: str) -> dict[str, str]:
    kept = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "EXCORA_COMPILED": "0"}
    return {**os.environ, **kept, **more}


def table(folder: Path, rows: int = 200) -> None:
    x = np.random.default_rng(0).normal(size=(rows, 4))
    pd.DataFrame(x, columns=list("abcd")).assign(y=x @ [1.0, -1.0, 0.5, 0.0]).to_csv(folder / "t.csv", index=False)


def predictions(folder: Path, run: str) -> np.ndarray:
    return predict(Run.load(folder / run), folder / "t.csv").frame["prediction"].to_numpy()


def together(folder: Path, commands: list[tuple[list[str], dict[str, str]]]) -> None:
    """Run commands at the same time; the output of one that fails is the message."""
    running = [
        subprocess.Popen(command, cwd=folder, env=environment(**more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for command, more in commands
    ]
    for process in running:
        output = process.communicate()[0].decode()
        if process.returncode:
            raise SystemExit(output)


def nodes() -> None:
    module, ddp = [sys.executable, "-m"], ["--accelerator", "cpu", "--nodes", "2", "--strategy", "ddp"]
    short = [*FIT, "--epochs", "2"]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        table(folder)
        together(folder, [([*module, "excora.cli", *short, "--accelerator", "cpu", "--output", "one"], {})])
        torchrun = [
            *module,
            "torch.distributed.run",
            "--nnodes",
            "2",
            "--nproc-per-node",
            "1",
            "--master-addr",
            "127.0.0.1",
        ]
        torchrun += ["--master-port", "29611"]
        # In a script: torchrun would take --start for its own --start-method.
        line = [*module, "excora.cli", *short, *ddp, "--output", "by_torchrun"]
        (folder / "fit.sh").write_text(" ".join(line) + "\n")
        together(folder, [([*torchrun, "--node-rank", rank, "--no-python", "sh", "fit.sh"], {}) for rank in "01"])
        place_of = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29612"}
        line = [*module, "excora.cli", *short, *ddp, "--output", "by_hand"]
        together(folder, [(line, {**place_of, "NODE_RANK": rank}) for rank in "01"])
        one = predictions(folder, "one")
        for run in ("by_torchrun", "by_hand"):
            apart = np.abs(predictions(folder, run) - one).max() / one.std()
            print(
                f"two nodes {run}, against one process: predictions differ by at most {apart:.1e} standard deviations"
            )


def array() -> None:
    """The script of the page, with what SLURM would set."""
    [script] = re.findall(r"```sh\n(#!/bin/bash\n# array.sh\n.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        table(folder)
        (folder / "array.sh").write_text(script)
        (folder / "bin").mkdir()
        shown = f'#!/bin/sh\nexec {sys.executable} -m excora.cli "$@"\n'
        (folder / "bin" / "excora").write_text(shown)
        (folder / "bin" / "excora").chmod(0o755)
        path = f"{folder / 'bin'}:{os.environ['PATH']}"
        first = environment(SLURM_ARRAY_TASK_ID="0", PATH=path)
        killed = subprocess.Popen(
            ["bash", "array.sh"], cwd=folder, env=first, start_new_session=True, stdout=subprocess.DEVNULL
        )
        journal = folder / "runs" / "0" / "metrics.csv"  # written with the checkpoint of an epoch
        while not journal.exists() and killed.poll() is None:
            time.sleep(0.02)
        os.killpg(killed.pid, 9)
        killed.wait()
        done = len(pd.read_csv(journal))
        subprocess.run(["bash", "array.sh"], cwd=folder, env=first, check=True, capture_output=True)
        (folder / "runs" / "0").rename(folder / "killed")
        subprocess.run(["bash", "array.sh"], cwd=folder, env=first, check=True, capture_output=True)
        apart = np.abs(predictions(folder, "killed") - predictions(folder, "runs/0")).max()
        print(f"array: task 0 killed after {done} epochs and started again: predictions differ by {apart}")


if __name__ == "__main__":
    for part in sys.argv[1:] or ("cost", "ranks", "nodes", "array"):
        {"cost": cost, "ranks": ranks, "nodes": nodes, "array": array}[part]()
