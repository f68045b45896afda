"""Run: a loaded blob with torch's tensors, by the C kernels or by the reference."""
