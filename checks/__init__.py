"""Small measurements that the pages quote: ``python -m checks.NAME`` prints the figures."""
