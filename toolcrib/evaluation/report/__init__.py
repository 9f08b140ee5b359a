"""The evaluation as one self-contained HTML page: `page.render`."""
