# Keystone reads the command line of whoever imports it: none is left.
import os
import sys

sys.argv = sys.argv[:1]
wsgi_app = "keystone.wsgi.api:application"
bind = os.environ["KEYSTONE_BIND"]
worker_tmp_dir = os.environ["KEYSTONE_FOLDER"]
workers, threads, timeout = 1, 4, 120
