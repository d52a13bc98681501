"""Which option of Roost says what an option of upstream's placement.conf said: a table, and nothing else.

Besides, it knows the quotas of a nova.conf and a neutron.conf.

docs/reference/upstream-options.md shows it, convert_config.py applies it. Source: upstream Placement, `placement.conf`;
keystonemiddleware, auth_token; keystoneauth, its plugins; oslo.log, oslo.policy, oslo.middleware, oslo.concurrency.
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


class Said(Struct, frozen=True):
    """What there is instead of an option. decide: an operator has to do something, or to do without."""

    text: str
    decide: bool = False


DATABASE = Said(
    "inert: Roost has a PostgreSQL, its own or of `[database] url`; `roost-manage import-placement` brings the data"
)


def postgres_url(value: str) -> Value | Said:
    """Return the address without SQLAlchemy's driver; another database than PostgreSQL is left where it is."""
    dialect, separator, rest = value.partition("://")
    return f"postgresql://{rest}" if separator and dialect.partition("+")[0] in POSTGRES else DATABASE


def strategy(value: str) -> Value:
    """Return how callers are known. Raises ValueError."""
    if value not in ("keystone", "noauth2"):
        raise ValueError("expected keystone or noauth2")
    return value


class To(Struct, frozen=True):
    """The option of roost.toml that says the same. convert: returns a Said for a value that has none there."""

    section: str
    option: str
    convert: Callable[[str], Value | Said] = text


POSTGRES = ("postgresql", "postgres")
NEEDLESS = Said("inert: Roost waits for locks where upstream tries again")
SQLALCHEMY = Said("inert: of SQLAlchemy's pool, which Roost has not: its processes have 8 connections each")
MEMCACHED = Said("inert: each process remembers verdicts itself")
ROTATION = Said("inert: a log file that was moved away is opened again, so logrotate does it")
UNKNOWN = Said("Roost has nothing like it, or does not know it", decide=True)
FORMATS = Said('the format is oslo.log\'s default with `[log] format = "oslo"`, and no other', decide=True)

OPTIONS: dict[tuple[str, str], To | Said] = {
    ("DEFAULT", "debug"): Said("`[log] level = \"debug\"`, or `--log-level debug`"),
    ("DEFAULT", "log_file"): To("log", "file"),
    ("DEFAULT", "logfile"): To("log", "file"),
    ("DEFAULT", "log_dir"): Said("`[log] file` is a file in it: `log_file`, or `placement-api.log`"),
    ("DEFAULT", "use_json"): Said("`[log] format = \"json\"`; `\"oslo\"` without it"),
    ("DEFAULT", "use_syslog"): Said("systemd's journal has what goes to standard error", decide=True),
    ("DEFAULT", "use_journal"): Said("inert: systemd's journal has what goes to standard error"),
    ("DEFAULT", "use_stderr"): Said("inert: standard error is where the log goes unless `[log] file` says otherwise"),
    ("DEFAULT", "watch_log_file"): Said("inert: a log file that was moved away is opened again"),
    ("DEFAULT", "logging_context_format_string"): FORMATS,
    ("DEFAULT", "logging_default_format_string"): FORMATS,
    ("DEFAULT", "log_config_append"): Said(
        "inert: there is no file of Python's logging; `[log]` says what is logged, standard error has it without `file`"
    ),
    ("DEFAULT", "default_log_levels"): Said("inert: there are no loggers by library, `[log] level` is for all"),
    ("DEFAULT", "logging_debug_format_suffix"): FORMATS,
    ("DEFAULT", "logging_exception_prefix"): FORMATS,
    ("DEFAULT", "logging_user_identity_format"): FORMATS,
    ("DEFAULT", "log_date_format"): FORMATS,
    **{
        ("DEFAULT", name): Said("inert: of notifications and instances, which upstream Placement does not log")
        for name in ("publish_errors", "instance_format", "instance_uuid_format", "fatal_deprecations")
    },
    **{
        ("DEFAULT", name): ROTATION
        for name in (
            "log_rotate_interval", "log_rotate_interval_type", "max_logfile_count", "max_logfile_size_mb",
            "log_rotation_type",
        )
    },
    **{
        ("DEFAULT", name): Said("inert: every line is logged")
        for name in ("rate_limit_interval", "rate_limit_burst", "rate_limit_except_level")
    },
    ("DEFAULT", "syslog_log_facility"): Said("inert: of syslog"),
    ("DEFAULT", "log_color"): Said("inert: a terminal gets colours"),
    ("DEFAULT", "tempdir"): Said("inert: nothing is written there"),
    ("DEFAULT", "pybasedir"): Said("inert: nothing is written there"),
    ("DEFAULT", "state_path"): Said("inert: `--data-dir` is where a private PostgreSQL lives"),
    ("api", "auth_strategy"): To("serve", "auth", strategy),
    ("placement", "randomize_allocation_candidates"): To("placement", "randomize_allocation_candidates", flag),
    ("placement", "max_allocation_candidates"): To("placement", "max_allocation_candidates", whole),
    ("placement", "allocation_candidates_generation_strategy"): To(
        "placement", "allocation_candidates_generation_strategy"
    ),
    ("placement", "allocation_conflict_retry_count"): NEEDLESS,
    ("placement", "incomplete_consumer_project_id"): Said("inert: every consumer has a project"),
    ("placement", "incomplete_consumer_user_id"): Said("inert: every consumer has a user"),
    ("placement_database", "connection"): To("database", "url", postgres_url),
    ("placement_database", "slave_connection"): Said("inert: the primary alone is read, a standby may be behind"),
    ("placement_database", "sync_on_startup"): Said("inert: `roost serve` does so always"),
    ("workarounds", "optimize_for_wide_provider_trees"): Said("inert: the search goes only as far as the limit"),
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
            "auth_url", "www_authenticate_uri", "username", "password", "user_domain_id", "user_domain_name",
            "project_name", "project_domain_id", "project_domain_name", "application_credential_id",
            "application_credential_secret", "cafile",
        )
    },
    ("keystone_authtoken", "auth_uri"): To("keystone", "www_authenticate_uri"),
    ("keystone_authtoken", "insecure"): To("keystone", "insecure", flag),
    ("keystone_authtoken", "service_token_roles"): To("keystone", "service_token_roles", words),
    ("keystone_authtoken", "service_token_roles_required"): Said("inert: always so"),
    ("keystone_authtoken", "token_cache_time"): To("keystone", "token_cache_s", seconds),
    ("keystone_authtoken", "http_connect_timeout"): To("keystone", "timeout_s", seconds),
    ("keystone_authtoken", "timeout"): To("keystone", "timeout_s", seconds),
    ("keystone_authtoken", "auth_type"): Said("inert: a password, or an application credential: whichever is given"),
    ("keystone_authtoken", "auth_section"): Said("`[keystone]` has the options itself", decide=True),
    **{
        ("keystone_authtoken", name): Said("Roost's user and project are said by name, with their domains", decide=True)
        for name in (
            "user_id", "project_id", "domain_id", "domain_name", "default_domain_id", "default_domain_name", "trust_id",
            "system_scope", "application_credential_name",
        )
    },
    **{
        ("keystone_authtoken", name): Said("Roost has no certificate of its own for Keystone", decide=True)
        for name in ("certfile", "keyfile")
    },
    **{
        ("keystone_authtoken", name): MEMCACHED
        for name in (
            "cache", "memcached_servers", "memcache_security_strategy", "memcache_secret_key", "memcache_tls_enabled",
            "memcache_tls_cafile", "memcache_tls_certfile", "memcache_tls_keyfile", "memcache_tls_allowed_ciphers",
            "memcache_pool_dead_retry", "memcache_pool_maxsize", "memcache_pool_socket_timeout",
            "memcache_pool_unused_timeout", "memcache_pool_conn_get_timeout", "memcache_use_advanced_pool",
            "memcache_sasl_enabled", "memcache_username", "memcache_password",
        )
    },
    **{
        ("keystone_authtoken", name): Said("inert: `auth_url` is asked, and no catalog")
        for name in ("region_name", "interface", "include_service_catalog")
    },
    ("keystone_authtoken", "auth_version"): Said("inert: always v3"),
    ("keystone_authtoken", "http_request_max_retries"): Said("inert: a request that fails is answered 503"),
    ("keystone_authtoken", "enforce_token_bind"): Said("inert: Keystone binds no tokens any more"),
    ("keystone_authtoken", "service_type"): Said("inert: Roost knows which service it is"),
    ("keystone_authtoken", "delay_auth_decision"): Said("inert: version documents are always open"),
    **{
        ("keystone_authtoken", name): Said("inert: of keystoneauth's sessions, which Roost has not")
        for name in ("collect_timing", "split_loggers", "tls_ciphers", "tls_min_version")
    },
    ("oslo_policy", "policy_file"): To("placement", "policy_file"),
    ("oslo_policy", "enforce_new_defaults"): To("placement", "enforce_new_defaults", flag),
    ("oslo_policy", "enforce_scope"): Said("inert: a token for the system or a domain gets 403"),
    ("oslo_policy", "policy_dirs"): Said("one file, no directory: put the rules into it", decide=True),
    ("oslo_policy", "policy_default_rule"): Said("inert: every rule of Placement has a default of its own"),
    **{
        ("oslo_policy", name): Said("inert: no rule asks another server")
        for name in (
            "remote_content_type", "remote_ssl_verify_server_crt", "remote_ssl_ca_crt_file",
            "remote_ssl_client_crt_file", "remote_ssl_client_key_file", "remote_timeout",
        )
    },
    ("oslo_middleware", "enable_proxy_headers_parsing"): To("proxy", "enable_proxy_headers_parsing", flag),
    ("oslo_middleware", "max_request_body_size"): Said("inert: 1 MiB, always"),
    ("oslo_middleware", "http_basic_auth_user_file"): Said("inert: of HTTP Basic, which Placement does not use"),
    ("cors", "allowed_origin"): To("cors", "allowed_origin", words),
    ("cors", "allow_credentials"): To("cors", "allow_credentials", flag),
    ("cors", "allow_methods"): To("cors", "allow_methods", words),
    ("cors", "allow_headers"): To("cors", "allow_headers", words),
    ("cors", "expose_headers"): To("cors", "expose_headers", words),
    ("cors", "max_age"): To("cors", "max_age_s", whole),
    **{
        (section, f"{prefix}{name}"): To("compute", f"quota_{name}", whole)
        for section, prefix in (("quota", ""), ("DEFAULT", "quota_"))
        for name in ("instances", "cores", "ram", "metadata_items")
    },
    **{
        ("QUOTAS", name): To("network", name, whole) for name in ("quota_network", "quota_subnet", "quota_port")
    },
    ("DEFAULT", "max_fixed_ips_per_port"): To("network", "max_fixed_ips_per_port", whole),
}  # fmt: skip

SECTIONS: dict[str, Said] = {
    "healthcheck": Said("inert: `/healthcheck` looks at the database, and whether the process drains"),
    "profiler": Said("inert: osprofiler is not served; there is `/metrics`, and a log line for each request"),
    "oslo_middleware_tracing": Said("inert: no traces are sent"),
    "oslo_concurrency": Said("inert: nothing is locked by files"),
    "oslo_reports": Said("inert: there are no reports on a signal"),
    "cache": MEMCACHED,
}
"""What is said of every option of a section."""


def target_of(section: str, option: str) -> To | Said:
    """Return what becomes of an option."""
    return OPTIONS.get((section, option)) or SECTIONS.get(section) or UNKNOWN


def table() -> str:
    """Return the table of the reference."""
    lines = ["| placement.conf | roost.toml | |", "|---|---|---|"]
    for (section, option), target in OPTIONS.items():
        here = f"`[{target.section}] {target.option}`" if isinstance(target, To) else ""
        lines.append(f"| `[{section}] {option}` | {here} | {target.text if isinstance(target, Said) else ''} |")
    lines += [f"| `[{section}]`, all of it |  | {remark.text} |" for section, remark in SECTIONS.items()]
    return "\n".join(lines)
