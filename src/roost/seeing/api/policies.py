"""Who may see and do what on the operator's side: admins, and for what only shows, the role `service` too."""

CHECKS = {
    "context_is_admin": "role:admin",
    "service_or_admin": "role:service or rule:context_is_admin",
}
"""What the rules of operations refer to."""

ADMIN = "rule:context_is_admin"
SERVICE = "rule:service_or_admin"
