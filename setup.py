"""Finds the packages: setup.cfg, where all the rest stands, knows one folder only to look in."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages("agent"),
        *find_packages("probes"),
        *find_packages("monitoring"),
        *find_packages("insight"),
    ]
)
