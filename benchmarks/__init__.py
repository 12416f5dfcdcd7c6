"""How fast the library is, beside its peers on the same servers in the same run. ``python -m benchmarks --help``."""
