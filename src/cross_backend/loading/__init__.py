"""Loading: which artifact is opened: the platform's order, what was learned here, fallback to the next."""
