#!/usr/bin/env bash
# Puts the field's suites and a Keystone in a virtual environment of their own: install.sh VENV
set -euo pipefail
"${PYTHON:-python3}" -m venv "$1"
"$1/bin/python" -m pip install --quiet --disable-pip-version-check tempest neutron-tempest-plugin keystone gunicorn
