"""How the pages are built: `make docs` puts them into build/docs."""

from __future__ import annotations

from importlib.metadata import version as version_of

project = "Flask-Geneva"
copyright = "the authors of Flask-Geneva"
version = release = version_of("flask-geneva")

extensions = ["sphinx.ext.autodoc", "myst_parser", "pallets_sphinx_themes"]
html_theme = "flask"
html_title = f"{project} {version}"
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_preserve_defaults = True
# The README and the sample application are no pages here; that each link leads to a file is seen to by a test.
suppress_warnings = ["myst.xref_missing"]
