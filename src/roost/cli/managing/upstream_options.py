"""Which option of Roost says what an option of upstream Placement's placement.conf said: a table, and nothing else.

docs/reference/upstream-options.md shows it, convert_config.py applies it. Source: upstream Placement, `placement.conf`;
keystonemiddleware, auth_token; oslo.log, oslo.policy, oslo.middleware.
"""

from collections.abc import Callable

from msgspec import Struct

Value = str | bool | int | float | list[str]


def text(value: str) -> Value:
    """Return it as it is."""
    return value


def flag(value: str) -> Value:
    """Return a boolean, as oslo.config reads them. Raises ValueError."""
    word = value.strip().lower()
    if word not in ("true", "1", "on", "yes", "false", "0", "off", "no"):
        raise ValueError("expected true or false")
    return word in ("true", "1", "on", "yes")


def whole(value: str) -> Value:
    """Return a whole number. Raises ValueError."""
    return int(value)


def seconds(value: str) -> Value:
    """Return a number of seconds. Raises ValueError."""
    number = float(value)
    return int(number) if number.is_integer() else number


def words(value: str) -> Value:
    """Return a list that was written with commas."""
    return [word.strip() for word in value.split(",") if word.strip()]


class To(Struct, frozen=True):
    """The option of roost.toml that says the same."""

    section: str
    option: str
    convert: Callable[[str], Value] = text


class Said(Struct, frozen=True):
    """What there is instead of an option. decide: an operator has to do something, or to do without."""

    text: str
    decide: bool = False


NEEDLESS = Said("not needed: Roost waits for locks where upstream tries again")
SQLALCHEMY = Said("of SQLAlchemy's pool, which Roost has not: its processes have 8 connections each")
FORMATS = Said('the format is oslo.log\'s default with `[log] format = "oslo"`, and no other', decide=True)

OPTIONS: dict[tuple[str, str], To | Said] = {
    ("DEFAULT", "debug"): Said("`[log] level = \"debug\"`, or `--log-level debug`"),
    ("DEFAULT", "log_file"): To("log", "file"),
    ("DEFAULT", "logfile"): To("log", "file"),
    ("DEFAULT", "log_dir"): Said("`[log] file` is a whole path", decide=True),
    ("DEFAULT", "use_json"): Said("`[log] format = \"json\"`; `\"oslo\"` without it"),
    ("DEFAULT", "use_syslog"): Said("systemd's journal has what goes to standard error", decide=True),
    ("DEFAULT", "use_journal"): Said("systemd's journal has what goes to standard error"),
    ("DEFAULT", "use_stderr"): Said("standard error is where the log goes unless `[log] file` says otherwise"),
    ("DEFAULT", "watch_log_file"): Said("always so: a log file that was moved away is opened again"),
    ("DEFAULT", "logging_context_format_string"): FORMATS,
    ("DEFAULT", "logging_default_format_string"): FORMATS,
    ("DEFAULT", "log_config_append"): Said("there is no file of Python's logging", decide=True),
    ("DEFAULT", "default_log_levels"): Said("there are no loggers by library: `[log] level` is for all"),
    ("DEFAULT", "tempdir"): Said("not needed"),
    ("DEFAULT", "pybasedir"): Said("not needed"),
    ("DEFAULT", "state_path"): Said("not needed; `--data-dir` is where a private PostgreSQL lives"),
    ("api", "auth_strategy"): Said("`roost serve --auth keystone`, or `noauth2`", decide=True),
    ("placement", "randomize_allocation_candidates"): To("placement", "randomize_allocation_candidates", flag),
    ("placement", "max_allocation_candidates"): To("placement", "max_allocation_candidates", whole),
    ("placement", "allocation_candidates_generation_strategy"): To(
        "placement", "allocation_candidates_generation_strategy"
    ),
    ("placement", "allocation_conflict_retry_count"): NEEDLESS,
    ("placement", "incomplete_consumer_project_id"): Said("not needed: every consumer has a project"),
    ("placement", "incomplete_consumer_user_id"): Said("not needed: every consumer has a user"),
    ("placement_database", "connection"): Said(
        "`roost serve --database`, or `ROOST_DATABASE`: a PostgreSQL; `roost-manage import-placement` brings the data",
        decide=True,
    ),
    ("placement_database", "slave_connection"): Said("Roost reads from the primary alone: a standby may be behind"),
    ("placement_database", "sync_on_startup"): Said("always so"),
    ("workarounds", "optimize_for_wide_provider_trees"): Said("not needed: the search goes only as far as the limit"),
    **{
        ("placement_database", name): SQLALCHEMY
        for name in (
            "connection_parameters", "sqlite_synchronous", "mysql_sql_mode", "connection_recycle_time", "max_pool_size",
            "max_retries", "retry_interval", "max_overflow", "connection_debug", "connection_trace", "pool_timeout",
        )
    },
    **{
        ("keystone_authtoken", name): To("keystone", name)
        for name in (
            "auth_url", "www_authenticate_uri", "username", "password", "user_domain_name", "project_name",
            "project_domain_name", "application_credential_id", "application_credential_secret", "cafile",
        )
    },
    ("keystone_authtoken", "auth_uri"): To("keystone", "www_authenticate_uri"),
    ("keystone_authtoken", "insecure"): To("keystone", "insecure", flag),
    ("keystone_authtoken", "service_token_roles"): To("keystone", "service_token_roles", words),
    ("keystone_authtoken", "service_token_roles_required"): Said("always so"),
    ("keystone_authtoken", "token_cache_time"): To("keystone", "token_cache_s", seconds),
    ("keystone_authtoken", "http_connect_timeout"): To("keystone", "timeout_s", seconds),
    ("keystone_authtoken", "auth_type"): Said("a password, or an application credential: whichever is given"),
    ("keystone_authtoken", "auth_section"): Said("`[keystone]` has the options itself", decide=True),
    ("keystone_authtoken", "user_domain_id"): Said("`[keystone] user_domain_name`: by name", decide=True),
    ("keystone_authtoken", "project_domain_id"): Said("`[keystone] project_domain_name`: by name", decide=True),
    ("keystone_authtoken", "memcached_servers"): Said("not needed: each process remembers verdicts itself"),
    ("keystone_authtoken", "region_name"): Said("not needed: `auth_url` is asked, and no catalog"),
    ("keystone_authtoken", "interface"): Said("not needed: `auth_url` is asked, and no catalog"),
    ("keystone_authtoken", "delay_auth_decision"): Said("not needed: version documents are always open"),
    ("oslo_policy", "policy_file"): To("placement", "policy_file"),
    ("oslo_policy", "enforce_new_defaults"): To("placement", "enforce_new_defaults", flag),
    ("oslo_policy", "enforce_scope"): Said("always so: a token for the system or a domain gets 403"),
    ("oslo_policy", "policy_dirs"): Said("one file, no directory: put the rules into it", decide=True),
    ("oslo_middleware", "enable_proxy_headers_parsing"): To("proxy", "enable_proxy_headers_parsing", flag),
    ("oslo_middleware", "max_request_body_size"): Said("16 MiB, always"),
    ("cors", "allowed_origin"): To("cors", "allowed_origin", words),
    ("cors", "allow_credentials"): To("cors", "allow_credentials", flag),
    ("cors", "allow_methods"): To("cors", "allow_methods", words),
    ("cors", "allow_headers"): To("cors", "allow_headers", words),
    ("cors", "expose_headers"): To("cors", "expose_headers", words),
    ("cors", "max_age"): To("cors", "max_age_s", whole),
    ("healthcheck", "path"): Said("always `/healthcheck`, beside `/healthz` and `/readyz`"),
    ("healthcheck", "backends"): Said("`/healthcheck` looks at the database, and whether the process drains"),
    ("healthcheck", "detailed"): Said("never"),
    ("profiler", "enabled"): Said("osprofiler is not served: there is `/metrics`, and a log line for each request"),
}  # fmt: skip


def table() -> str:
    """Return the table of the reference."""
    lines = ["| placement.conf | roost.toml | |", "|---|---|---|"]
    for (section, option), target in OPTIONS.items():
        here = f"`[{target.section}] {target.option}`" if isinstance(target, To) else ""
        lines.append(f"| `[{section}] {option}` | {here} | {target.text if isinstance(target, Said) else ''} |")
    return "\n".join(lines)
