"""Where this release's migrations begin; what went before is in earlier releases."""

revision = "compute_0009"
down_revision = None
