"""What both days' code share."""

LATER = {"queue": "later"}
