"""API: the functions behind ``import cross_backend as xb``; each checks its arguments and calls a room below."""
