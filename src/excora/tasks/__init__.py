"""Tasks: generators with a known answer, a file each, for studies, tests and demonstrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from excora.registry import Registry

if TYPE_CHECKING:
    from excora.tasks.base import Task

#: The tasks there are. A new one is a module here, or in another package.
tasks: Registry[type[Task]] = Registry("task", home="excora.tasks")
