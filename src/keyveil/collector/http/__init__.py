"""The collector's HTTP edge: endpoints and their handlers, the route of reports, limits, the server."""
