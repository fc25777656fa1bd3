"""The site's names of labels: queries in, answers back."""

from __future__ import annotations

import pytest

from plimsoll_agent.monitor.site_labels import SiteLabels

CLUSTER = SiteLabels(("cluster",), "node")
TWO = SiteLabels(("datacenter", "cluster"), "host")


@pytest.mark.parametrize(
    ("labels", "query", "said"),
    [
        (SiteLabels(), 'max by (region, instance) (up{region="r"})', 'max by (region, instance) (up{region="r"})'),
        (CLUSTER, "max by (region, instance, uuid) (x)", "max by (cluster, node, uuid) (x)"),
        (CLUSTER, 'x{region="r1",instance=~"a|b"}', 'x{cluster="r1",node=~"a|b"}'),
        (
            CLUSTER,
            'sum by(region,cluster)(x{cluster="f"})',
            'sum by(cluster,exported_cluster)(x{exported_cluster="f"})',
        ),
        (
            CLUSTER,
            'x{server="region, instance{",uuid!="a\\"}region"}',
            'x{server="region, instance{",uuid!="a\\"}region"}',
        ),
        (
            CLUSTER,
            "a and on (instance) b unless ignoring (region) c",
            "a and on (node) b unless ignoring (cluster) c",
        ),
        (CLUSTER, "a * on (uuid) group_left (cluster) b", "a * on (uuid) group_left (exported_cluster) b"),
        (CLUSTER, "region:plimsoll_x:p99_1d[3d:15m] offset 5s", "region:plimsoll_x:p99_1d[3d:15m] offset 5s"),
        (SiteLabels(("group",), "count"), "count(group by (region) (x))", "count(group by (group) (x))"),
        (TWO, "sum by (region) (x)", "sum by (datacenter, cluster) (x)"),
        (TWO, 'x{region="d1/c1"}', 'x{datacenter="d1",cluster="c1"}'),
        (TWO, 'x{region="d1/c/2"}', 'x{datacenter="d1",cluster="c/2"}'),
        (TWO, 'x{region="d1"}', 'x{datacenter="d1"}'),
        (TWO, 'x{region=""}', 'x{datacenter="",cluster=""}'),
        (TWO, 'x{region="a\\"b\\\\"}', 'x{datacenter="a\\"b\\\\"}'),
    ],
)
def test_a_query_is_in_the_names_of_the_site(labels: SiteLabels, query: str, said: str) -> None:
    assert labels.to_site(query) == said


@pytest.mark.parametrize(
    ("labels", "answer", "read"),
    [
        (SiteLabels(), {"region": "r", "cluster": "f"}, {"region": "r", "cluster": "f"}),
        (CLUSTER, {"cluster": "r", "node": "n", "uuid": "u"}, {"region": "r", "instance": "n", "uuid": "u"}),
        (CLUSTER, {"cluster": "r", "exported_cluster": "f"}, {"region": "r", "cluster": "f"}),
        (CLUSTER, {"uuid": "u"}, {"uuid": "u"}),
        (CLUSTER, {"region": "other", "cluster": "r"}, {"region": "r"}),
        (TWO, {"datacenter": "d", "cluster": "c"}, {"region": "d/c"}),
        (TWO, {"datacenter": "d"}, {"region": "d/"}),
        (TWO, {"datacenter": "", "cluster": "", "host": "h"}, {"region": "", "instance": "h"}),
    ],
)
def test_an_answer_is_in_our_names(labels: SiteLabels, answer: dict[str, str], read: dict[str, str]) -> None:
    assert labels.from_site(answer) == read
