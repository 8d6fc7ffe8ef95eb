"""What turns raw values into embeddings: one file a kind of value."""
