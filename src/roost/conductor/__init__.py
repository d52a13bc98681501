"""Carries servers through their stages, whatever fails."""
