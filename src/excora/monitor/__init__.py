"""The plateau monitor: a run's statistics epoch by epoch, and from them the verdict."""

from excora.monitor.plateau import PlateauMonitor

__all__ = ["PlateauMonitor"]
