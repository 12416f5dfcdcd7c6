"""What keeps all workflows going when something was lost: it finds rows that nobody will come for, and mends them.

Each section finds rows and says what is to be done with each; ``run`` does it, a transaction for each, and commits.
"""
