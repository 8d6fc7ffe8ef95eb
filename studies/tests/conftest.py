"""Set up as the tests of the package are: threads, environment, hypothesis, seed."""

from tests.conftest import _seed  # noqa: F401  (a fixture of every test)
