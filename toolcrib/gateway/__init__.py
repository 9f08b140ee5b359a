"""Gateway: one MCP server in front of many, with a search instead of a long list of tools."""
