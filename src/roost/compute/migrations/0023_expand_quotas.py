"""Projects have quotas of instances, cores, memory and metadata items. Before.

What a project has is counted where it makes something, so its servers are found by an index; so are those that it had,
for what it used.
"""

from alembic import op

revision = "compute_0023"
down_revision = "compute_0022"

QUOTA = """
CREATE TABLE compute.quota (
    -- Empty: of all projects that have none of their own.
    project_id text NOT NULL,
    resource text NOT NULL,
    maximum bigint NOT NULL,
    PRIMARY KEY (project_id, resource)
)
"""


DELETED = """
CREATE INDEX deleted_server_project ON compute.deleted_server ((document ->> 'project_id'), deleted_at)
"""


def upgrade() -> None:
    """Add the quotas that were set, and the indexes by project."""
    op.execute(QUOTA)
    op.execute("CREATE INDEX server_project ON compute.server (project_id)")
    op.execute(DELETED)
