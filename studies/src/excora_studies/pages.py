"""The numbers of the pages in docs/, rendered from the committed results: ``python -m excora_studies.pages``.

A block between ``<!-- results: NAME -->`` and ``<!-- end -->`` is replaced by what :data:`BLOCKS` makes of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from excora.errors import InputError
from excora.storage import write_atomically
from excora_studies import STUDIES
from excora_studies.elements import page as element_page
from excora_studies.markdown import number, table, with_spread
from excora_studies.tabular import page as tabular_page

Results = dict[str, dict[str, Any]]  # by study
_MARK = re.compile(r"(<!-- results: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def synthetic(results: Results) -> str:
    """Levels, with the paper's gains beside ours."""
    rows = [
        [
            row["sigma~"],
            row["variant"],
            with_spread(row, "PCC", 4),
            with_spread(row, "gain %", 2),
            number(row["paper gain %"], 2),
            with_spread(row, "MSE less %", 1),
            number(row["paper less %"], 1),
        ]
        for row in results["synthetic"]["table"]
        if row["variant"] in ("mean", "softmax", "ECA (paper)", "ECA (ours)")
    ]
    header = ("σ~", "variant", "test PCC", "gain over softmax, %", "paper", "MSE reduction, %", "paper")
    return table(header, rows)


def ceilings(results: Results) -> str:
    """Constants of the four tasks and their closed forms."""
    keys = ("eta", "nu", "kappa", "mean_pcc", "best_softmax_pcc", "best_convex_pcc", "ours_pcc", "bayes_pcc")
    rows = [
        [f"{level['sigma~']:.2f}", *(number(level[key], 3 if i < 3 else 4) for i, key in enumerate(keys))]
        for level in results["synthetic"]["summary"]["ceilings"]
    ]
    return table(("σ~", "η", "ν", "κ", "mean", "softmax", "any convex weights", "γ ≤ 4", "Bayes"), rows)


def ablation(results: Results) -> str:
    """PCC of each variant at each level, and its difference from ours on the grid."""
    rows = results["synthetic"]["table"]
    levels = list(dict.fromkeys(row["sigma~"] for row in rows))
    cells = {(row["variant"], row["sigma~"]): with_spread(row, "PCC", 4) for row in rows}
    grid = results["grid"]["summary"]["ablation"]
    body = [
        [
            name,
            *(cells[name, level] for level in levels),
            f"{one['mean']:+.4f} ± {one['sd over seeds']:.4f}",
            f"{one['worst']:+.5f} … {one['best']:+.5f}",
        ]
        for name, one in grid.items()
    ]
    header = ("variant", *(f"σ~ = {level}" for level in levels), "grid: PCC − ours", "over its settings")
    return table(header, body)


def region(results: Results) -> str:
    """From which constant on the paper's gains are possible, by rule, nu/eta and level."""
    stored = results["synthetic"]["summary"]["region"]
    rows = [
        [rule.replace("kappa", "κ").replace("eta", "η"), marker, *(_span(span) for span in spans)]
        for rule, by_marker in stored.items()
        for marker, spans in by_marker.items()
    ]
    return table(
        ("rule", "ν/η", *(f"c at σ~ = {level:.2f}" for level in results["synthetic"]["configuration"]["levels"])), rows
    )


def _span(span: Sequence[float | None]) -> str:
    low, high = span
    if low is None or high is None:
        return "nowhere"
    return f"≥ {low:.2f}" if high >= 12.0 else f"{low:.2f} to {high:.2f}"


def gradients(results: Results) -> str:
    """Ratio, bound and spread at the start and the end."""
    rows = [
        [
            row["sigma~"],
            row["loss"],
            number(row["ratio start"], 3),
            number(row["ratio end"], 3),
            number(row["1/(2 rho sigma_y^2)"], 3),
            number(row["largest ratio/bound"], 3),
            f"{row['sigma ratio start']:.2f} → {row['sigma ratio end']:.2f}",
            f"{row['logit gradient start']:.1e}",
        ]
        for row in results["gradients"]["table"]
    ]
    header = ("σ~", "loss", "ratio, start", "end", "1/(2ρσ_y²)", "largest ratio/bound", "σ_ŷ/σ_y", "RMS dρ/dz, start")
    return table(header, rows)


def batch_size(results: Results) -> str:
    """End, ratio and plateau by batch size."""
    rows = [
        [
            row["variant"],
            str(row["batch"]),
            with_spread(row, "PCC", 4),
            number(row["gradient ratio end"], 3),
            row["plateau"],
            number(row["PCC flat from epoch"], 0),
            number(row["PCC flat from step"], 0),
            number(row["PCC after"], 4),
            number(row["MSE after %"], 1),
        ]
        for row in results["batch-size"]["table"]
    ]
    header = (
        "variant",
        "batch",
        "test PCC",
        "ratio, end",
        "plateau seen",
        "PCC flat from epoch",
        "from step",
        "PCC after",
        "MSE after, %",
    )
    return table(header, rows)


def grid(results: Results) -> str:
    """The twelve settings."""
    rows = [
        [
            *(f"{row[key]:g}" for key in ("kappa", "eta", "nu")),
            *(number(row[key], 4) for key in ("mean", "softmax", "ECA (paper)", "ECA (ours)")),
            f"{row['ours - softmax']:+.5f} ± {row['ours - softmax sd']:.5f}",
            f"{row['ours - paper']:+.5f} ± {row['ours - paper sd']:.5f}",
            *(number(row[key], 4) for key in ("softmax ceiling", "ours ceiling", "Bayes")),
        ]
        for row in results["grid"]["table"]
    ]
    header = ("κ", "η", "ν", "mean", "softmax", "ECA (paper)", "ECA (ours)", "ours − softmax", "ours − paper")
    return table((*header, "best softmax", "best γ ≤ 4", "Bayes"), rows)


def plateau(results: Results) -> str:
    """The eight sets, and the totals."""
    rows = [
        [
            row["set"],
            row["variant"],
            row["plateau (train)"],
            number(row["PCC flat from (train)"], 0),
            number(row["PCC after (train)"], 3),
            number(row["MSE after % (train)"], 0),
            row["plateau (validation)"],
            number(row["MSE after % (validation)"], 0),
            with_spread(row, "test PCC", 3),
            with_spread(row, "test MSE", 3),
        ]
        for row in results["plateau"]["table"]
    ]
    header = ("set", "variant", "plateau, training", "flat from epoch", "PCC after", "MSE after, %")
    total = results["plateau"]["summary"]
    line = (
        f"Runs with a plateau, of {total['runs']}: training rows softmax {total['softmax, train']}, ECA "
        f"{total['ECA, train']}; validation rows softmax {total['softmax, validation']}, ECA "
        f"{total['ECA, validation']}. Test PCC of ECA − softmax: {total['ECA - softmax test PCC']:+.4f} (standard "
        f"deviation over runs {total['sd over runs']:.4f}), above in {total['runs with ECA above softmax']} of "
        f"{total['runs']} runs: {_verdict(total['ECA - softmax test PCC'], total['sd over runs'], total['runs'])}."
    )
    states = ("improving", "plateau", "converged", "worsening", "too short")
    final = [[key, *(str(counts.get(state, 0)) for state in states)] for key, counts in total["final"].items()]
    more = ("plateau, validation", "MSE after, %", "test PCC", "test MSE")
    ends = f"What the rule says of the whole run, in numbers of runs:\n\n{table(('rows', *states), final)}"
    return f"{table((*header, *more), rows)}\n\n{line}\n\n{ends}"


def _verdict(mean: float, deviation: float, runs: int) -> str:
    """By two standard errors."""
    error = deviation / runs**0.5
    if abs(mean) <= 2 * error:
        return f"**no difference that shows** (standard error {error:.4f})"
    return f"**ECA {'above' if mean > 0 else 'below'} softmax** (standard error {error:.4f})"


def runs(results: Results) -> str:
    """Seeds, epochs, time and versions of each study."""
    rows = []
    for name, one in results.items():
        if name in ("tabular", "verdicts"):  # have pages of their own
            continue
        seconds = sum(chunk["seconds"] for chunk in one["chunks"].values())
        protocol = one["configuration"].get("protocol") or one["configuration"]["setup"]
        seeds = len(one["configuration"]["seeds"])
        rows.append([f"`{name}`", str(seeds), str(protocol["epochs"]), f"{seconds:.0f} s", one["versions"]["torch"]])
    return table(("study", "seeds", "epochs", "time, on a shared machine", "torch"), rows)


def summary(results: Results) -> str:
    """The levels of ``synthetic`` in one line each, for README.md."""
    by_name: dict[str, dict[str, Any]] = {}
    for row in results["synthetic"]["table"]:
        by_name.setdefault(row["sigma~"], {})[row["variant"]] = row
    rows = []
    for level, found in by_name.items():
        ours = found["ECA (ours)"]
        cells = [with_spread(found[name], "PCC", 3) for name in ("softmax", "ECA (paper)", "ECA (ours)")]
        rows.append([level, *cells, f"+{ours['gain %']:.1f} %", f"+{ours['paper gain %']:.2f} %"])
    names = (
        "σ~",
        "softmax, test PCC",
        "ECA, the paper's form",
        "ECA, ours",
        "gain of ours over softmax",
        "the paper's gain",
    )
    return table(names, rows)


def _verdicts(results: Results, severity: str) -> str:
    """The confusion matrix of one severity."""
    found = results["verdicts"]["summary"][severity]
    verdicts = list(next(iter(found["confusion"].values())))
    rows = [[cause, *(str(n) if n else "" for n in row.values())] for cause, row in found["confusion"].items()]
    line = f"{severity.capitalize()} faults: **{found['right']:.0%} right, {found['false_alarms']:.0%} false alarms**"
    return f"{line} on healthy runs.\n\n{table(('cause, below; verdict, right', *verdicts), rows)}"


def clear_faults(results: Results) -> str:
    """Verdicts on clear faults."""
    return _verdicts(results, "clear")


def mild_faults(results: Results) -> str:
    """Verdicts on mild faults."""
    return _verdicts(results, "mild")


BLOCKS: dict[str, Callable[[Results], str]] = {
    "synthetic": synthetic,
    "ceilings": ceilings,
    "ablation": ablation,
    "region": region,
    "gradients": gradients,
    "batch-size": batch_size,
    "grid": grid,
    "plateau": plateau,
    "elements": lambda results: element_page.render(results["elements"]),
    "tabular": lambda results: tabular_page.scores(results["tabular"]),
    "tabular peers": lambda results: tabular_page.peers(results["tabular"]),
    "tabular together": lambda results: tabular_page.together(results["tabular"]),
    "tabular hosts": lambda results: tabular_page.hosts(results["tabular"]),
    "tabular summary": lambda results: tabular_page.summary(results["tabular"]),
    "runs": runs,
    "summary": summary,
    "clear faults": clear_faults,
    "mild faults": mild_faults,
}


#: Pages with results, besides README.md.
PAGES = ("studies.md", "diagnose.md", "tabular.md")


def read(folder: Path) -> Results:
    """results.json of each study in ``folder``."""
    paths = {name: folder / name / "results.json" for name in STUDIES}
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}


def render(text: str, results: Results) -> str:
    """``text`` with every block made anew; an unknown block is an error."""

    def replace(match: re.Match[str]) -> str:
        if match[2] not in BLOCKS:
            raise InputError(f"a results block must be one of {', '.join(BLOCKS)}, got {match[2]!r}")
        return f"{match[1]}\n{BLOCKS[match[2]](results)}\n\n{match[3]}"

    return _MARK.sub(replace, text)


if __name__ == "__main__":
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs")
    for page in (*(root / name for name in PAGES), root.parent / "README.md"):
        write_atomically(page, render(page.read_text(encoding="utf-8"), read(root / "results")))
