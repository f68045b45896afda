"""Export: one workload to many targets, in parallel worker processes; partial failures are told."""
