"""One MCP server in front of many: search in place of a long list."""
