"""Documents: finds them, loads them as text or Markdown, and splits them by headings."""
