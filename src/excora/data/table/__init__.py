"""Tables: reading, columns, preparation. A row is a sample."""

from excora.data.table.content import Table, TableFeatures, TableSpec
from excora.data.table.preparation import PreparedTable
from excora.data.table.source import TableSource

__all__ = ["PreparedTable", "Table", "TableFeatures", "TableSource", "TableSpec"]
