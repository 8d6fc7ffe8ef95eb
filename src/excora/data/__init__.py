"""Where samples come from: a file or folder a source, behind one registry; then splits, preparation, batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from excora.registry import Registry

if TYPE_CHECKING:
    from excora.data.source import Source

#: The kinds of samples there are. A new one is a module or folder here, or in another package (see docs/data.md).
sources: Registry[Source] = Registry("source", home="excora.data")
