"""Reports: what a simulation took, as rows, as a trace, and as one page of HTML."""
