"""A CUDA build of torch on a machine without CUDA: empty libraries in place of gigabytes that would never be called.

The wheels of torch that the package index has for Linux are CUDA builds, and import only where the libraries of
NVIDIA's packages are found (about 3 GB more). ``stub`` writes one small library for each that is missing: it defines
the symbols torch asks of it, and each function returns 100, CUDA's "no device", so that torch finds no GPU and computes
on the CPU. For tests in throw-away environments alone; needs gcc and nm (binutils).
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path

NVIDIA = re.compile(r"lib(cu|nccl|nv)[\w.]*\.so")
#: Symbols without a version do not say whose they are: by their prefix. The longest that fits counts.
PREFIXES = {
    "nccl": "libnccl",
    "nvshmem": "libnvshmem_host",
    "cusparseLt": "libcusparseLt",
    "cuFile": "libcufile",
    "curand": "libcurand",
}


def printed(*command: str | Path) -> str:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout


def needed(libraries: list[Path]) -> set[str]:
    """The names of NVIDIA's libraries that these are linked to."""
    dynamic = printed("readelf", "-d", "-W", *libraries)
    return {name for name in re.findall(r"NEEDED.*\[(.*)\]", dynamic) if NVIDIA.match(name)}


def asked(libraries: list[Path], names: set[str]) -> dict[str, set[tuple[str, str]]]:
    """What is asked of each library: symbols and their versions ("" where there is none)."""
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for line in printed("nm", "-D", "--undefined-only", "--with-symbol-versions", *libraries).splitlines():
        symbol, _, version = line.split()[-1].partition("@") if line.split() else ("", "", "")
        owners = [name for name in names if version == name]
        owners += [n for prefix, owner in PREFIXES.items() if symbol.startswith(prefix) for n in names if owner in n]
        for owner in owners[:1]:
            found[owner].add((symbol, version))
    return found


def stub(folder: Path) -> list[str]:
    """Write the missing libraries of torch's lib folder beside it; their names."""
    libraries = sorted(folder.glob("*.so"))
    names = needed(libraries)
    wanted = asked(libraries, names)
    for name in sorted(names):
        symbols = sorted(wanted[name])
        source, script = folder / "stub.c", folder / "stub.map"
        source.write_text("".join(f"int {symbol}(void) {{ return 100; }}\n" for symbol, _ in symbols))
        versions = sorted({version for _, version in symbols if version})
        script.write_text("".join(f"{version} {{ global: *; }};\n" for version in versions) or "{ global: *; };\n")
        command = [
            "gcc",
            "-shared",
            "-fPIC",
            "-w",
            "-fno-builtin",
            f"-Wl,-soname,{name}",
            f"-Wl,--version-script,{script}",
        ]
        printed(*command, "-o", folder / name, source)
        source.unlink()
        script.unlink()
    return sorted(names)
