"""SQL that counts what projects have of their quotas. A port that no client sees (nic_tag) counts for nobody."""

from roost.network.rules.quotas import RESOURCES

COUNTS: dict[tuple[str, ...], str] = {
    (kind,): f"""
-- network.count_{kind}s_of_projects
SELECT project_id, count(*) AS {kind} FROM network.{kind}
WHERE {{projects}} {"AND nic_tag IS NULL" if kind == "port" else ""} GROUP BY project_id
"""  # noqa: S608 - names of tables
    for kind in RESOURCES
}
"""As `QuotaTable` has them."""
