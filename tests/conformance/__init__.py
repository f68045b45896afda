"""One black-box suite that every backend of the registry passes."""
