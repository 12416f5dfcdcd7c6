"""Numbers and lists for people: read-only queries for the command line, the metrics and the dashboard.

``listing`` finds workflows, ``timelines`` tells the story of one, ``gauges`` counts, ``checking`` compares the code
with the rows in flight, ``schema`` the tables with the database. The caller gives the session and the moment.
"""
