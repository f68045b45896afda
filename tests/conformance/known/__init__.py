"""Known failures, one file a backend (dots become _): ``KNOWN = {"test_name": ("notimpl|notyet|never", "reason")}``."""
