"""Measurements of the service: load, kills, full disks, hostile requests."""
