"""Worker: a process of its own that answers questions, and dies alone."""
