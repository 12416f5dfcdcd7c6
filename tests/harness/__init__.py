"""What the tests stand on: real databases, a real Redis, real workers, a small application with a ledger."""
