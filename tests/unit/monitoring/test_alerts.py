"""What an alert asks in its annotations: PromQL in a string of a template, and a format of printf."""

from __future__ import annotations

from plimsoll_monitoring.alerts.region import example
from plimsoll_monitoring.alerts.site import Site


def test_a_sites_matchers_are_in_a_string_of_the_template_and_no_part_of_the_format() -> None:
    site = Site(selector='instance=~"a\\\\.b", job!="100%"')
    words = example(site, lambda its, _: its("plimsoll_pass_paused"))
    promql = r"plimsoll_pass_paused{instance=~\"a\\\\.b\", job!=\"100%%\", region=%[1]q}"
    assert words.startswith(f'{{{{ with query (printf "{promql}" $labels.region) }}}}')
