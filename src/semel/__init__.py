"""semel: event streams that arrive exactly once."""

__version__ = "0.1.0"
