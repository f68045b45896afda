"""Studies: workloads × targets × settings, read from YAML, run panel by panel, resumable, compared with each other."""
