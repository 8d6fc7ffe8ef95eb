"""Parts that several models share, or that are too long for the file of one."""
