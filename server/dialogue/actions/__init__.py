"""Where custom actions run: in this process, or on an action server."""
