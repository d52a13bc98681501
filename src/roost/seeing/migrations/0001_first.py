"""Where this release's migrations begin; what went before is in earlier releases."""

revision = "seeing_0001"
down_revision = None
