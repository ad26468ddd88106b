"""Settings of the documentation site: `make site` collects the pages (scripts/docs_site.py) and runs Sphinx."""

import re
from pathlib import Path

_PACKAGE = (Path(__file__).resolve().parent.parent / "src/sojourn/__init__.py").read_text(encoding="utf-8")

project = "sojourn"
release = version = re.findall(r'^__version__ = "(.+)"$', _PACKAGE, re.M)[0]
root_doc = "index"
extensions = ["myst_parser"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"sojourn {release}"
html_show_copyright = html_show_sphinx = html_copy_source = False
# Listings show what people paste, and a job file with `...` in it: where a lexer gives up, the text is shown as it is.
suppress_warnings = ["misc.highlighting_failure"]
