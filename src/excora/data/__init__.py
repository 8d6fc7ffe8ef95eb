"""Where bags come from: one file a source, each imported on its own so that none pays for another's packages."""
