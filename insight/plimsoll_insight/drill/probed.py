"""What probes of guests measure while a drill is recorded, as lines of a recording."""

from __future__ import annotations

from collections.abc import Iterator

from plimsoll_agent.errors import Unreachable
from plimsoll_insight.drill.recording import ProbeJob, job_line
from plimsoll_insight.drill.sources import Line, Source
from plimsoll_probes.execute.runner import Stopped
from plimsoll_probes.execute.steady import SteadyProbe
from plimsoll_probes.model.finding import Trouble
from plimsoll_probes.output.messages import why_words


def probing(probe: SteadyProbe, guest: str) -> Source:
    """A job after the other in this guest."""

    def ask() -> Iterator[Line]:
        try:
            run = probe.run()
        except Trouble as trouble:
            raise Unreachable(why_words(trouble.why, trouble.facts)) from trouble
        except Stopped:
            return
        yield (
            run.ended,
            job_line(
                ProbeJob(
                    began=run.began, ended=run.ended, guest=guest, latency=run.latency.buckets, slowest=run.slowest
                )
            ),
        )

    return ask
