"""The agent plays live on the page."""
