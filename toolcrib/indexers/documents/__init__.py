"""Documents: found, loaded as text or Markdown, split along their headings."""
