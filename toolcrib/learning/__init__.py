"""Learning from use: requests that ended in a successful call, as examples of the tool called."""
