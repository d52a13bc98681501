"""Where this release's migrations begin; what went before is in earlier releases."""

revision = "network_0004"
down_revision = None
