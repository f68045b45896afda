"""Browser: a real browser as a place where models run: its page, the way there and back, the files that it needs."""
