"""SQL that counts what projects have of their quotas. A port that no client sees (nic_tag) counts for nobody."""

from roost.platform.quota_tables import QuotaTable

QUOTAS = QuotaTable(
    schema="network",
    lock_space=0x524F5354,
    counts={
        ("network",): """
-- network.count_networks_of_projects
SELECT project_id, count(*) AS network FROM network.network WHERE {projects} GROUP BY project_id
""",
        ("subnet",): """
-- network.count_subnets_of_projects
SELECT project_id, count(*) AS subnet FROM network.subnet WHERE {projects} GROUP BY project_id
""",
        ("port",): """
-- network.count_ports_of_projects
SELECT project_id, count(*) AS port FROM network.port
WHERE {projects} AND nic_tag IS NULL GROUP BY project_id
""",
    },
)
