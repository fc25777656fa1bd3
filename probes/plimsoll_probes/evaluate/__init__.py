"""What limits allow, the verdict on a run, and its comparison with earlier runs. Pure.

Imports ``model`` and below.
"""
