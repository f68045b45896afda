"""End-to-end tests: the real command, in processes of its own."""
