"""The Grafana dashboards, as code, in a site's names: ``plimsoll monitoring dashboards`` writes them.

One module per dashboard, ``region``, ``node`` and ``disk``, which link to each other in this order. Panels of more
than one dashboard are in ``shared``. They use ``board`` (rows of panels), ``panels`` (kinds of panels), ``steps``
(thresholds and colours), ``links``, ``variables``, and ``chosen`` (series that the variables select).

It imports ``alerts`` for a site's values, ``monitor`` for the table of measures, the names of metrics and PromQL, and
nothing else of the agent; only this room imports Grafana's SDK (extra ``dashboards``).
"""
