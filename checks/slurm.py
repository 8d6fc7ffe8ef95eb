"""The job scripts of docs/scale.md under a real SLURM of two nodes on this machine: ``python -m checks.slurm``.

For a throw-away Debian machine, as root, after ``apt-get install slurm-wlm munge``. The daemons (munged, slurmctld, two
slurmd with ports of their own) keep everything in a temporary folder and are stopped at the end.

- ``ranks``: a fit of two tasks, one a node, put back into the queue in its midst, against one process.
- ``array``: one task cancelled in its midst and submitted again, against a task that was left alone.
- ``study``: parts of a study as an array into one folder, one cancelled and submitted again; then all are gathered.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from checks.scale import FIT, PAGE, predictions, table, together

CONFIGURATION = """
ClusterName=here
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmctldPort=17900
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
NodeName=node0 NodeHostname={host} NodeAddr=127.0.0.1 Port=17901 CPUs=4
NodeName=node1 NodeHostname={host} NodeAddr=127.0.0.1 Port=17902 CPUs=4
PartitionName=main Nodes=node0,node1 Default=YES State=UP
"""
#: SLURM 22.05, Debian 12's, has no CgroupPlugin=disabled, and slurmd wants a plugin even where it is not used.
CGROUP = "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\n"
STEP = 0.2  # seconds between two looks


def call(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[None]:
    """Daemons of a SLURM of two nodes, with all they write in a folder."""
    missing = [name for name in ("munged", "slurmctld", "slurmd", "sbatch") if shutil.which(name) is None]
    if missing or os.geteuid():
        raise SystemExit(f"expected root and Debian's slurm-wlm and munge; missing: {', '.join(missing) or 'root'}")
    for name in ("state", "spool.node0", "spool.node1"):
        (folder / name).mkdir()
    (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder, host=socket.gethostname()))
    (folder / "cgroup.conf").write_text(CGROUP)
    (folder / "munge.key").write_bytes(os.urandom(64))
    (folder / "munge.key").chmod(0o600)
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    own = {f"--{kind}-file={folder}/munge.{end}" for kind, end in (("key", "key"), ("log", "log"), ("pid", "pid"))}
    try:
        call("munged", "--force", f"--socket={folder}/munge.socket", f"--seed-file={folder}/munge.seed", *sorted(own))
        call("slurmctld")
        for node in ("node0", "node1"):
            call("slurmd", "-N", node)
        until(lambda: call("sinfo", "-h", "-o", "%D %t").strip() == "2 idle", "the nodes to be idle")
        yield
    finally:
        for file in folder.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(file.read_text()), signal.SIGTERM)
        time.sleep(2)


def until(done: Callable[[], bool], what: str, seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            raise SystemExit(f"waited {seconds:.0f} s for {what}: {call('squeue')}")
        time.sleep(STEP)


def script(name: str) -> str:
    """The text of the script that the page calls this."""
    blocks = re.findall(r"```sh\n(#!/bin/bash\n.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    [found] = [block for block in blocks if f"# {name}.sh" in block]
    return str(found)


def submit(folder: Path, name: str, *options: str) -> str:
    """Submit a script of the page; its number."""
    (folder / f"{name}.sh").write_text(script(name))
    return call("sbatch", "--parsable", f"--chdir={folder}", *options, folder / f"{name}.sh").strip()


def ended(folder: Path, job: str) -> None:
    """Wait until a job and all its tasks are over, each with 0 but those that were cancelled."""
    until(lambda: not call("squeue", "-h", "-j", job, "-t", "all", "-o", "%t").strip("CADF \n"), f"job {job}")
    states = call("squeue", "-h", "-j", job, "-t", "all", "-o", "%T").split()
    if set(states) - {"COMPLETED", "CANCELLED"}:
        output = "\n".join(file.read_text() for file in sorted(folder.glob(f"slurm-{job}*.out")))
        raise SystemExit(f"job {job} ended as {', '.join(states)}:\n{output}")


def ranks(folder: Path) -> None:
    together(folder, [([sys.executable, "-m", "excora.cli", *FIT, "--epochs", "8", "--output", "one"], {})])
    job, journal = submit(folder, "ranks"), folder / "two" / "metrics.csv"
    until(journal.exists, "the first epoch")
    call("scontrol", "requeue", job)
    done = len(journal.read_text().splitlines()) - 1
    call("scontrol", "update", f"JobId={job}", "StartTime=now")
    ended(folder, job)
    one, two = predictions(folder, "one"), predictions(folder, "two")
    apart = np.abs(one - two).max() / one.std()
    print(f"ranks: two nodes, requeued after {done} epochs: {apart:.1e} standard deviations from one process")


def array(folder: Path) -> None:
    job, journal = submit(folder, "array", "--array=0"), folder / "runs" / "0" / "metrics.csv"
    until(journal.exists, "the first epoch")
    call("scancel", f"{job}_0")
    ended(folder, job)
    done = len(journal.read_text().splitlines()) - 1
    ended(folder, submit(folder, "array", "--array=0"))
    (folder / "runs" / "0").rename(folder / "cancelled")
    ended(folder, submit(folder, "array", "--array=0-1"))
    apart = np.abs(predictions(folder, "cancelled") - predictions(folder, "runs/0")).max()
    print(f"array: task 0 cancelled after {done} epochs and submitted again: predictions differ by {apart}")


def study(folder: Path) -> None:
    job, parts = submit(folder, "study"), folder / "runs" / "verdicts" / "parts"
    until((parts.parent / "results.json").exists, "the first task to begin")
    call("scancel", f"{job}_0")
    ended(folder, job)
    before = {file.name: file.stat().st_mtime_ns for file in parts.iterdir()}
    if len(before) != 1:
        raise SystemExit(f"expected the part of task 1 alone, found {sorted(before)}")
    ended(folder, submit(folder, "study"))
    after = {file.name: file.stat().st_mtime_ns for file in parts.iterdir()}
    kept = sum(after[name] == stamp for name, stamp in before.items())
    rows = len(json.loads((parts.parent / "results.json").read_text())["table"])
    print(f"study: task 0 cancelled, {len(before)} part there; submitted again, {len(after)} parts,", end=" ")
    print(f"{kept} of them from before; {rows} rows in the table")


def main() -> int:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "bin").mkdir()
        (folder / "bin" / "excora").write_text(f'#!/bin/sh\nexec {sys.executable} -m excora.cli "$@"\n')
        (folder / "bin" / "excora").chmod(0o755)
        os.environ["PATH"] = f"{folder / 'bin'}:{os.environ['PATH']}"
        os.environ |= {"OMP_NUM_THREADS": "1", "EXCORA_COMPILED": "0", "MASTER_ADDR": "127.0.0.1"}  # no DNS has node0
        table(folder)
        with cluster(folder):
            for part in sys.argv[1:] or ("ranks", "array", "study"):
                {"ranks": ranks, "array": array, "study": study}[part](folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
