"""RQ as an adapter: the one place below the extension that knows it."""
