"""What users name: targets and their options, platforms, precisions, metrics of tasks."""
