"""ExecuTorch backends: one file each, over what all of them share in ``_pte``."""
