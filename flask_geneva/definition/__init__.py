"""What a workflow class says: its steps, their options, its rules and exception policies.

Pure Python, read once when the class is created and never changed afterwards. Every mistake is a
``StepConfigurationError`` at that moment. Nothing here knows a database, Flask or RQ.
"""
