"""Documents become passages: found, loaded as text or Markdown, split along their headings."""
