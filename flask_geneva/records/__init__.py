"""What is stored: three tables, a row being an obligation.

``geneva_workflows`` holds one row a workflow: its class, its hero, where it stands and which step comes next.
``geneva_step_executions`` holds one row for each attempt at a step; the open one (scheduled, waiting or in progress)
is what the workflow owes, and a unique index allows one active attempt a workflow. ``geneva_signals`` holds the
events that were delivered to a workflow; an execution names the signal that it handles.

The tables are plain Core (:mod:`.tables`), since the engine writes them with Core statements; the mapped classes
:class:`.StepExecution`, :class:`.Signal` and ``flask_geneva.Workflow`` are what applications read. States are moved in
:mod:`.transitions` and nowhere else, and :mod:`.saving` turns moved rows into statements.
"""
