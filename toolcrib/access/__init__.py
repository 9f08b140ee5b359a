"""Access: API keys, grants, quarantine and the lock file of approved tools."""
