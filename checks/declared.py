"""Write what the help of a command reads in place of the models, which load torch: ``python -m checks.declared``.

To be run when a model, its options, the recipe or the machine have changed; tests/cli/test_declared.py says so.
"""

from __future__ import annotations

from excora.cli.declared import FILE, as_text, from_registries

if __name__ == "__main__":
    FILE.write_text(as_text(from_registries()), encoding="utf-8")
    print(f"wrote {FILE.name}: {len(from_registries().models)} models")
