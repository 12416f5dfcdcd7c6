"""The library's own Alembic revisions, and how they get into an application's ``migrations`` folder.

``versions`` holds the revisions, a chain of files that are copied as they are but for the revision they follow. A
copied file belongs to the application's history, so it is written out and calls nothing of the library but
:mod:`.ddl`, to which things are only ever added.
"""
