"""The Grafana dashboards, as code: ``python -m dashboards`` writes etc/grafana/*.json anew.

One module per dashboard, ``region``, ``node`` and ``disk``, which link to each other in this order. What more than
one of them shows is in ``shared``. Beneath: ``board`` (rows of panels), ``panels`` (their kinds, in one look),
``steps`` (thresholds and colours), ``links``, ``variables``. ``queries`` reads a finished dashboard back.
"""
