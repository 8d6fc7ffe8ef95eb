"""The site: ``make docs``. Its pages are the Markdown of this folder, the files of examples/ and docstrings."""

from __future__ import annotations

import sys
from pathlib import Path

import excora

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

project, author, release = "Excora", "The Excora authors", excora.__version__
copyright = author  # the name that Sphinx reads
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_gallery.gen_gallery", "registries"]
exclude_patterns = ["_build", "results"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "attrs_block", "attrs_inline"]
autodoc_member_order, autodoc_typehints = "bysource", "none"
autodoc_default_options = {"members": True, "exclude-members": "set_fit_request, set_score_request"}
python_use_unqualified_type_names = True
html_static_path, html_css_files = ["_static"], ["pictures.css"]
html_theme, html_title, html_show_sourcelink = "furo", f"Excora {release}", False
sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 5,
    "within_subsection_order": "FileNameSortKey",
}
