"""Reports: what a simulation took, as rows and as a trace."""
