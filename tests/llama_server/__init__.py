"""llama.cpp's own server tests, run against `shepherd serve`: see run.py."""
