"""Twelve callers, who differ in roles, in project and in scope."""

from roost.platform.auth import Caller

MANAGER, MEMBER, READER = ("manager", "member", "reader"), ("member", "reader"), ("reader",)
CALLERS = {
    "admin": Caller("root", "cloud", ("admin", *MANAGER)),
    "service": Caller("nova", "services", ("service",)),
    "manager": Caller("meg", "mine", MANAGER),
    "member": Caller("ann", "mine", MEMBER),
    "reader": Caller("rob", "mine", READER),
    "nobody": Caller("tom", "mine"),
    "other manager": Caller("max", "theirs", MANAGER),
    "other member": Caller("eve", "theirs", MEMBER),
    "other reader": Caller("roy", "theirs", READER),
    "system admin": Caller("sys", None, ("admin", *MANAGER), system_scope="all"),
    "system reader": Caller("see", None, READER, system_scope="all"),
    "domain admin": Caller("dom", None, ("admin", *MANAGER), domain_id="default"),
}
"""Of the project mine, of another, of operators, and of what is no project."""
