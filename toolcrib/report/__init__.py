"""Report of an evaluation as one self-contained HTML page: `page.render`."""
