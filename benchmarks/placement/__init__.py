"""The Placement API under load, over HTTP: Roost beside upstream Placement in one run, and Roost by itself."""
