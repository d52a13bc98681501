"""Roost places virtual machines where their network has room."""

__version__ = "0.1.0"
