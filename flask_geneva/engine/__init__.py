"""What happens to one workflow: an attempt is prepared, performed and finalised; the verbs act from outside."""
