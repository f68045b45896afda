"""Reports: rows that every medium shares, and one file a medium. No torch."""
