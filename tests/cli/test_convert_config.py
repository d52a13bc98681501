"""`roost-manage convert-config`: what becomes of upstream's options; the table and the reference have them all."""

import json
import tomllib
from pathlib import Path

import pytest
from keystoneauth1 import loading
from keystonemiddleware.auth_token import _opts as auth_token
from oslo_concurrency import opts as oslo_concurrency
from oslo_config import cfg
from oslo_log import _options as oslo_log
from oslo_middleware import opts as oslo_middleware
from oslo_policy import opts as oslo_policy
from placement.conf import opts
from typer.testing import CliRunner

from roost.cli.manage import app
from roost.cli.managing.convert_config import DECIDE, DONE, interpolate, read_upstream
from roost.cli.managing.upstream_options import (
    OPTIONS,
    UNKNOWN,
    To,
    flag,
    seconds,
    table,
    target_of,
    text,
    whole,
    words,
)
from roost.cli.settings import Settings, read_settings
from roost.platform.errors import BadRequest

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "upstream-options.md"
ORDINARY = """
[DEFAULT]
debug = true
log-file = /var/log/placement/api.log
[placement]
randomize_allocation_candidates = True
max_allocation_candidates = 1000
[keystone_authtoken]
auth_url = https://keystone.example:5000
auth_type = password
username = placement
password = p"a\\ss
service_token_roles = service, admin
memcached_servers = a:11211,
 b:11211
[oslo_policy]
enforce_new_defaults = false
[cors]
allowed_origin = https://horizon.example
"""


def convert(tmp_path: Path, content: str, *options: str) -> tuple[int, str]:
    file = tmp_path / "placement.conf"
    file.write_text(content)
    done = CliRunner().invoke(app, ["convert-config", str(file), *options])
    return done.exit_code, done.stdout


def test_a_configuration_becomes_one_that_roost_reads(tmp_path: Path) -> None:
    status, toml = convert(tmp_path, ORDINARY)
    assert status == DONE, toml
    (tmp_path / "roost.toml").write_text(toml)
    settings = read_settings(tmp_path / "roost.toml")
    assert settings.placement.randomize_allocation_candidates
    assert settings.placement.max_allocation_candidates == 1000
    assert not settings.placement.enforce_new_defaults
    assert settings.keystone.password == 'p"a\\ss'
    assert settings.serve.auth == "keystone"
    assert settings.keystone.service_token_roles == ("service", "admin")
    assert settings.cors.allowed_origin == ("https://horizon.example",)
    assert (settings.log.level, settings.log.format, settings.log.file) == (
        "debug", "oslo", "/var/log/placement/api.log"
    )  # fmt: skip
    assert "#   [keystone_authtoken] memcached_servers: inert: " in toml


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[oslo_policy]\npolicy_dirs = /etc/placement/policy.d", "put the rules into it"),
        ("[keystone_authtoken]\npassword = SECRET$nothing", "a `$` of its own is written `$$`"),
        ("[keystone_authtoken]\npassword = SECRET$password", "it refers to itself"),
        ("[placement]\nnonsense = 1", "does not know it"),
        ("[placement]\nmax_allocation_candidates = many", "its value 'many' is not as upstream has it"),
    ],
)
def test_what_is_left_to_decide_has_a_status_of_its_own_and_tells_no_secret(
    tmp_path: Path, line: str, said: str
) -> None:
    status, toml = convert(tmp_path, line)
    assert status == DECIDE
    assert said in toml
    assert "SECRET" not in toml
    tomllib.loads(toml)


def test_json_has_the_options_and_the_remarks(tmp_path: Path) -> None:
    status, document = convert(tmp_path, "[DEFAULT]\nuse_json = on\n[api]\nauth_strategy = keystone", "--json")
    told = json.loads(document)
    assert (status, told["options"]) == (DONE, {"log": {"format": "json"}, "serve": {"auth": "keystone"}})
    assert [(remark["option"], remark["decide"]) for remark in told["remarks"]] == [("use_json", False)]


@pytest.mark.parametrize(
    ("content", "said"), [("[placement\n", "line 1"), ("x\n", "line 1"), (None, "cannot be read: No such file")]
)
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, content: str | None, said: str) -> None:
    file = tmp_path / "placement.conf"
    if content is not None:
        file.write_text(content)
    done = CliRunner().invoke(app, ["convert-config", str(file)])
    assert done.exit_code == 1
    assert str(file) in done.stderr
    assert said in done.stderr


VALUES = r"""
[DEFAULT]
my_ip = 10.0.0.5
empty =
[keystone_authtoken]
dollars = x$$y$$
by_default = x$my_ip
braces = ${my_ip}:80
group = $keystone_authtoken.dollars
alone = p$1$.$
backslash = p\$q
nothing = $empty-
chain = ${braces}.x
quoted = "a $my_ip"
comment = a # b
plain = p"a\ss%(x)s
"""


def test_values_are_read_as_oslo_config_reads_them(tmp_path: Path) -> None:
    file = tmp_path / "placement.conf"
    file.write_text(VALUES)
    upstream = read_upstream([file])
    theirs = cfg.ConfigOpts()
    for section, option in upstream:
        theirs.register_opt(cfg.StrOpt(option), group=None if section == "DEFAULT" else section)
    theirs([], default_config_files=[str(file)])
    assert len(upstream) > 10
    for section, option in upstream:
        group = theirs if section == "DEFAULT" else theirs[section]
        assert interpolate(upstream, section, option) == group[option], option


def test_a_password_is_the_one_that_upstream_sends(tmp_path: Path) -> None:
    status, toml = convert(
        tmp_path,
        "[DEFAULT]\nhost = 10.0.0.5\n[keystone_authtoken]\npassword = a$$b\nauth_url = https://${host}:5000\n"
        "user_domain_id = default\nproject_domain_id = 5b5c",
    )
    options = tomllib.loads(toml)["keystone"]
    assert (options["password"], options["auth_url"]) == ("a$b", "https://10.0.0.5:5000")
    assert (options["user_domain_id"], options["project_domain_id"]) == ("default", "5b5c")
    assert status == DECIDE  # upstream has no [DEFAULT] host


KOLLA = """
[DEFAULT]
debug = False
log_file = /var/log/kolla/placement/placement-api.log
state_path = /var/lib/placement
[oslo_middleware]
enable_proxy_headers_parsing = true
[oslo_concurrency]
lock_path = /var/lib/placement/tmp
[placement_database]
connection = mysql+pymysql://placement:aGVsbG8@10.1.0.9:3306/placement
connection_recycle_time = 10
max_overflow = 1000
max_pool_size = 1
max_retries = -1
[cache]
backend = oslo_cache.memcache_pool
enabled = true
memcache_servers = 10.1.0.1:11211,10.1.0.2:11211
[keystone_authtoken]
service_type = placement
www_authenticate_uri = https://cloud.example:5000
auth_url = http://10.1.0.9:5000
auth_type = password
project_domain_id = default
user_domain_id = default
project_name = service
username = placement
password = aGVsbG8
cafile =
region_name = RegionOne
memcache_security_strategy = ENCRYPT
memcache_secret_key = d29ybGQ
memcached_servers = 10.1.0.1:11211,10.1.0.2:11211
[oslo_policy]
policy_file = policy.yaml
[profiler]
enabled = true
trace_sqlalchemy = true
hmac_keys = c2Vl
connection_string = redis://10.1.0.3
"""
OPENSTACK_ANSIBLE = """
[DEFAULT]
log_dir = /var/log/placement
[keystone_authtoken]
auth_type = password
insecure = False
auth_url = http://172.29.0.9:5000
www_authenticate_uri = https://cloud.example:5000
project_domain_id = default
user_domain_id = default
project_name = service
username = placement
password = aGVsbG8
region_name = RegionOne
memcached_servers = 172.29.0.1:11211
memcache_security_strategy = ENCRYPT
memcache_secret_key = d29ybGQ
service_token_roles_required = True
service_token_roles = service
service_type = placement
[oslo_policy]
policy_file = policy.yaml
[placement_database]
connection = mysql+pymysql://placement:aGVsbG8@172.29.0.9:3306/placement?charset=utf8&ssl_verify_cert=true
max_overflow = 50
max_pool_size = 5
pool_timeout = 30
connection_recycle_time = 600
"""
OPENSTACK_HELM = """
[DEFAULT]
debug = false
log_config_append = /etc/placement/logging.conf
use_syslog = false
[keystone_authtoken]
auth_type = password
auth_uri = http://keystone.openstack.svc.cluster.local/v3
auth_url = http://keystone-api.openstack.svc.cluster.local:5000/v3
auth_version = v3
memcache_secret_key = d29ybGQ
memcache_security_strategy = ENCRYPT
memcached_servers = memcached.openstack.svc.cluster.local:11211
service_token_roles = service
service_token_roles_required = true
service_type = placement
password = aGVsbG8
project_domain_name = service
project_name = service
region_name = RegionOne
user_domain_name = service
username = placement
[oslo_concurrency]
lock_path = /var/lock
[placement_database]
connection = mysql+pymysql://placement:aGVsbG8@mariadb.openstack.svc.cluster.local:3306/placement
"""


@pytest.mark.parametrize(
    ("rendered", "log_file"),
    [
        (KOLLA, "/var/log/kolla/placement/placement-api.log"),
        (OPENSTACK_ANSIBLE, "/var/log/placement/placement-api.log"),
        (OPENSTACK_HELM, ""),
    ],
    ids=["kolla-ansible", "openstack-ansible", "openstack-helm"],
)
def test_what_deployment_tools_render_leaves_nothing_to_decide(tmp_path: Path, rendered: str, log_file: str) -> None:
    status, toml = convert(tmp_path, rendered)
    assert status == DONE, toml
    (tmp_path / "roost.toml").write_text(toml)
    settings = read_settings(tmp_path / "roost.toml")
    settings.keystone.check()
    assert (settings.keystone.username, settings.keystone.password) == ("placement", "aGVsbG8")
    assert settings.keystone.www_authenticate_uri.startswith(("https://cloud.example", "http://keystone.openstack"))
    assert settings.log.file == log_file
    assert "d29ybGQ" not in toml
    assert "mysql" not in toml


@pytest.mark.parametrize(
    ("connection", "url"),
    [
        ("postgresql+psycopg2://p:a%40b@db/placement?sslmode=require", "postgresql://p:a%40b@db/placement?sslmode=require"),
        ("postgres://db/placement", "postgresql://db/placement"),
        ("mysql+pymysql://p:SECRET@db/placement?charset=utf8", None),
        ("sqlite://", None),
    ],
)  # fmt: skip
def test_a_postgresql_stays_the_database_and_another_is_left(tmp_path: Path, connection: str, url: str | None) -> None:
    status, toml = convert(tmp_path, f"[placement_database]\nconnection = {connection}")
    assert (status, tomllib.loads(toml).get("database", {}).get("url")) == (DONE, url)
    assert "SECRET" not in toml
    assert ("import-placement" in toml) == (url is None)


@pytest.mark.parametrize(
    ("content", "file"), [("", "policy.yaml"), ("[oslo_policy]\npolicy_file = mine.yaml", "mine.yaml")]
)
def test_a_policy_file_beside_counts_as_upstream_counts_it(tmp_path: Path, content: str, file: str) -> None:
    (tmp_path / "policy.yaml").write_text("{}")
    assert tomllib.loads(convert(tmp_path, content)[1])["placement"]["policy_file"] == file


def test_of_several_files_a_later_one_wins(tmp_path: Path) -> None:
    snippet = tmp_path / "placement_keystone_authtoken.conf"
    snippet.write_text("[keystone_authtoken]\npassword = new")
    file = tmp_path / "placement.conf"
    file.write_text("[keystone_authtoken]\nusername = placement\npassword = old")
    done = CliRunner().invoke(app, ["convert-config", str(file), str(snippet)])
    assert tomllib.loads(done.stdout)["keystone"] == {"username": "placement", "password": "new"}


def test_every_option_of_upstream_is_in_the_table() -> None:
    libraries = (opts, auth_token, oslo_log, oslo_policy, oslo_middleware, oslo_concurrency)
    upstream = {
        (getattr(group, "name", group) or "DEFAULT", option.dest)
        for library in libraries
        for group, options in library.list_opts()
        for option in options
    }
    upstream |= {
        ("keystone_authtoken", option.dest)
        for plugin in ("password", "v3password", "v3applicationcredential")
        for option in loading.get_plugin_loader(plugin).get_options()
    }
    upstream |= {("keystone_authtoken", option.dest) for option in loading.get_session_conf_options()}
    assert len(upstream) > 130
    assert sorted(place for place in upstream if target_of(*place) is UNKNOWN) == []


def test_every_option_of_the_table_is_one_of_roosts_and_takes_what_is_converted(tmp_path: Path) -> None:
    examples = {text: "x", flag: "yes", whole: "7", seconds: "7", words: "a, b"}
    particular = {
        "allocation_candidates_generation_strategy": "depth-first",
        "auth_strategy": "noauth2",
        "connection": "postgresql+psycopg2://placement:p%40ss@db/placement?sslmode=require",
    }
    for (section, option), target in OPTIONS.items():
        if isinstance(target, To):
            assert target.section in Settings.__struct_fields__
            value = particular.get(option) or examples[target.convert]
            _, toml = convert(tmp_path, f"[{section}]\n{option} = {value}")
            (tmp_path / "roost.toml").write_text(toml)
            read_settings(tmp_path / "roost.toml")


def test_the_reference_is_the_table() -> None:
    assert table() in REFERENCE.read_text()


def test_a_flag_is_one_of_upstreams_words() -> None:
    assert (flag("On"), flag("0"), seconds("0.5"), words("a,,b ")) == (True, False, 0.5, ["a", "b"])
    with pytest.raises(ValueError, match="true or false"):
        flag("maybe")
    with pytest.raises(BadRequest):
        read_settings("/nonexistent/roost.toml")
