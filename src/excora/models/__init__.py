"""Host models: each readable alone."""
