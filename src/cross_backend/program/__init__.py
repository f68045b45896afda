"""Program: capture, and what a captured program is: torch's or ONNX's, flat, with a sample and its reference."""
