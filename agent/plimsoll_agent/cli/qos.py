"""``plimsoll qos``: Cinder's QoS specs and volume types as a file."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from plimsoll_agent.app.cloud import connected
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import ConfigError, PlimsollError, UsageError
from plimsoll_agent.messages.disk_lines import Manner
from plimsoll_agent.messages.lines import TextLine
from plimsoll_agent.model.limits import Unit
from plimsoll_agent.model.reason import Unknown
from plimsoll_agent.qos import apply as qos_apply
from plimsoll_agent.qos import cinder as qos_cinder
from plimsoll_agent.qos import effects as qos_effects
from plimsoll_agent.qos import file as qos_file
from plimsoll_agent.qos import messages as words
from plimsoll_agent.qos import plan as qos_plan
from plimsoll_agent.qos import review, serialize
from plimsoll_agent.qos.apply import How, StepResult
from plimsoll_agent.qos.cinder import Cinder, Live
from plimsoll_agent.qos.effects import Cut, TypeEffect, VolumeImpact
from plimsoll_agent.qos.file import Declaration, QosFile
from plimsoll_agent.qos.lint import SpecFault
from plimsoll_agent.qos.plan import Step
from plimsoll_agent.qos.review import QosFinding
from plimsoll_agent.terminal.base import YES, LocalCommand, add_format, add_verbose, text_of
from plimsoll_agent.terminal.changes import laid_out
from plimsoll_agent.terminal.until import ended_early
from plimsoll_agent.util import files, schema
from plimsoll_agent.util.frozen import frozen, replace

LOG = logging.getLogger(__name__)
_STDIN = "-"
# Seconds. A page of a thousand volumes takes Cinder several.
_DEADLINE = 60.0


class CloudCommand(LocalCommand):
    """A command that may ask Cinder."""

    has_formats = True

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--cloud",
            metavar="NAME",
            help="the cloud in clouds.yaml; default: OS_CLOUD in the environment, then the settings",
        )
        if self.has_formats:
            add_format(parser)
        return parser

    def cinder(self, parsed_args: argparse.Namespace, settings: Settings) -> Cinder:
        """Raises ``ConfigError``."""
        cloud = parsed_args.cloud or os.environ.get("OS_CLOUD") or settings.catalogue.cloud
        return connected(replace(settings.catalogue, cloud=cloud), deadline=_DEADLINE)

    def say(self, line: str) -> None:
        """Print a line; a closed standard output must not end a plan in the middle."""
        try:
            print(line, file=self.app.stdout, flush=True)
        except OSError as error:
            if self.status == 0:
                LOG.error("standard output cannot be written (%s)", error)
            self.status = 1

    def tell(self, lines: Iterable[TextLine]) -> None:
        for line in laid_out(lines, self.terminal):
            self.say(line)

    def say_data(self, data: object, parsed_args: argparse.Namespace) -> None:
        self.say(text_of(data, parsed_args.format))

    def complain(self, line: str) -> None:
        print(line, file=self.app.stderr, flush=True)


def _read(source: str) -> QosFile:
    """Raises ``ConfigError``."""
    if source == _STDIN:
        return qos_file.parse(schema.standard_input(), schema.STDIN)
    return qos_file.read(Path(source))


@frozen(kw_only=True)
class _Planned:
    """A plan, what it is made from, and its effects."""

    file: QosFile
    live: Live
    steps: tuple[Step, ...]
    effects: tuple[TypeEffect, ...] | None
    """None where Cinder does not show all volumes."""
    lowest: Mapping[Unit, int]
    impacts: tuple[VolumeImpact, ...] = ()
    """Of the volumes that get a lower limit, or a first one."""

    @property
    def impossible(self) -> tuple[Unknown, ...]:
        """Why no volume could be attached with the result of the steps."""
        return qos_plan.impossible(self.steps)

    @property
    def findings(self) -> tuple[QosFinding, ...]:
        """Faults of the QoS specs that the steps create, change or give to a type."""
        specs = {name: self.file.declared.specs[name] for name in qos_plan.touched(self.steps)}
        return tuple(
            finding
            for finding in review.review(Declaration(specs), self.lowest)
            if isinstance(finding.what, SpecFault)
        )

    @property
    def errors(self) -> tuple[SpecFault, ...]:
        faults = (finding.what for finding in self.findings if finding.severity == "error")
        return tuple(fault for fault in faults if isinstance(fault, SpecFault))

    @property
    def weight(self) -> str:
        """What an operator must confirm first; empty if nothing."""
        return words.weight_words(self.steps, self.effects)


class _Planning(CloudCommand):
    """What plan and apply share."""

    missing = "set [prometheus] url to have the use of the {} looked up"
    """Why the use of so many volumes is unknown."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "file", metavar="FILE", help="QoS specs and volume types as YAML, or - for standard input"
        )
        add_verbose(parser)
        parser.add_argument(
            "--prune",
            action="store_true",
            help="delete volume types and QoS specs that FILE does not declare",
        )
        parser.add_argument(
            "--prune-in-use",
            action="store_true",
            help="with --prune: delete QoS specs even if a volume type has them",
        )
        return parser

    def planned(self, parsed_args: argparse.Namespace, settings: Settings, api: Cinder, file: QosFile) -> _Planned:
        live = qos_cinder.read(api)
        steps = qos_plan.plan(file.declared, live, prune=parsed_args.prune, force=parsed_args.prune_in_use)
        plan = _Planned(file=file, live=live, steps=steps, effects=(), lowest=settings.brake.lowest)
        deletions = qos_plan.forced(steps)
        if not qos_effects.effects(file.declared, live, (), deletions=deletions):
            return plan
        try:
            volumes = qos_cinder.attached_volumes(api)
        except PlimsollError as error:
            self.complain(f"Unknown which attached volumes change: {error}")
            return replace(plan, effects=None)
        cuts = qos_effects.cuts(file.declared, live, volumes, deletions=deletions)
        return replace(
            plan,
            effects=qos_effects.effects(file.declared, live, volumes, deletions=deletions),
            impacts=self.impacts(parsed_args, settings, cuts),
        )

    def impacts(
        self, parsed_args: argparse.Namespace, settings: Settings, cuts: Sequence[Cut]
    ) -> tuple[VolumeImpact, ...]:
        """What the volumes did lately: unknown here, where no history of other nodes is."""
        return tuple(VolumeImpact(cut, None) for cut in cuts)

    def check(self, parsed_args: argparse.Namespace) -> None:
        """Raises ``UsageError``."""
        if parsed_args.prune_in_use and not parsed_args.prune:
            raise UsageError("--prune-in-use needs --prune")

    def show(self, parsed_args: argparse.Namespace, plan: _Planned) -> None:
        """Print the lines below the steps."""
        for why in plan.impossible:
            self.complain(words.impossible_line(why))
        for finding in plan.findings:
            place = _place(plan.file.origin, plan.file.line_of(finding.path))
            self.complain(place + _finding(finding))
        if parsed_args.format == "text":
            manner = Manner(exact=self.wants_exact(parsed_args))
            self.tell(words.effect_lines(plan.effects or (), manner))
            self.tell(words.volume_impact_lines(plan.impacts, manner, self.missing))

    def say_left(self, parsed_args: argparse.Namespace, plan: _Planned) -> None:
        """What Cinder has and the file does not declare."""
        self.tell(map(TextLine, words.undeclared_lines(plan.file.declared, plan.live, prune=parsed_args.prune)))


class QosPlan(_Planning):
    """Show the steps that make Cinder match a file.

    It also shows the attached volumes that the steps change and, by the region's Prometheus, which of them will feel
    it: by what they did in the last week.

    Nothing is changed. What FILE does not declare is kept, unless --prune is given.

    Exit status:
        0   nothing to do
        2   steps to do
        1   error
        64  usage

    Examples:
        plimsoll qos plan qos.yaml
        plimsoll qos plan qos.yaml --cloud north
        plimsoll qos plan qos.yaml --prune
    """

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        self.check(parsed_args)
        file = _read(parsed_args.file)
        settings = self.settings(parsed_args)
        plan = self.planned(parsed_args, settings, self.cinder(parsed_args, settings), file)
        extras = qos_plan.undeclared(file.declared, plan.live)
        if parsed_args.format != "text":
            self.say_data(serialize.plan_data(plan.steps, plan.effects, extras, plan.impacts), parsed_args)
        else:
            self.tell(map(words.step_line, plan.steps))
        self.show(parsed_args, plan)
        if parsed_args.format == "text":
            self.say_left(parsed_args, plan)
            self.tell([TextLine(words.plan_sum(plan.steps))])
        if plan.impossible:
            return 1
        if plan.errors:
            self.complain(words.will_refuse_line(plan.errors))
        return 2 if plan.steps else 0


class QosApply(_Planning):
    """Make Cinder match a file, and check the result.

    Errors of plimsoll qos lint are refused. If attached volumes get other limits, a volume type loses its QoS spec or
    extra specs, or something is deleted, it asks first; without a terminal it needs --yes. After an interruption run
    it again for the remaining steps. Attached volumes get their limits in the next passes of plimsoll on their nodes.

    Exit status:
        0   Cinder matches FILE
        3   some steps done
        1   error or nothing done
        64  usage

    Examples:
        plimsoll qos apply qos.yaml --dry-run
        plimsoll qos apply qos.yaml
        plimsoll qos apply qos.yaml --prune --yes
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--dry-run", action="store_true", help="show what would be done; change nothing")
        parser.add_argument("--yes", action="store_true", help="do not ask")
        parser.add_argument(
            "--force", action="store_true", help="apply QoS specs even if plimsoll qos lint finds errors in them"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        self.check(parsed_args)
        file = _read(parsed_args.file)
        settings = self.settings(parsed_args)
        api = self.cinder(parsed_args, settings)
        plan = self.planned(parsed_args, settings, api, file)
        text = parsed_args.format == "text"
        refusal = words.refusal_line(plan.impossible, () if parsed_args.force else plan.errors)
        asks = bool(plan.weight) and refusal is None and not parsed_args.yes and not parsed_args.dry_run
        if asks and text:
            self.tell(map(words.step_line, plan.steps))
        self.show(parsed_args, plan)
        if refusal is not None:
            self.complain(refusal)
            return 1
        if parsed_args.dry_run:
            return self._dry(parsed_args, plan)
        if asks and not self._agrees(parsed_args, plan):
            self.say("Nothing applied.")
            return 1
        results = self._take(plan, api, text=text)
        rest = self._left(parsed_args, api, file) if results else ()
        if text:
            self.say_left(parsed_args, plan)
            self.say(words.result_line(results, len(plan.steps), rest) if results else words.plan_sum(()))
        else:
            steps = [serialize.taken_data(one) for one in results]
            extras = qos_plan.undeclared(file.declared, plan.live)
            data = serialize.plan_data(plan.steps, plan.effects, extras, plan.impacts) | {"steps": steps}
            data |= {"left": None if rest is None else [serialize.step_data(step) for step in rest]}
            self.say_data(data, parsed_args)
        if rest == ():
            return 0
        return 3 if any(one.how is How.DONE for one in results) else 1

    def _agrees(self, parsed_args: argparse.Namespace, plan: _Planned) -> bool:
        """Raises ``UsageError`` without a terminal to ask on, and where it is used for input or JSON."""
        if parsed_args.format != "text" or parsed_args.file == _STDIN or not self.app.stdin.isatty():
            raise UsageError(
                f"nothing applied: no terminal to ask on: {plan.weight}. Add --yes, or look first with --dry-run"
            )
        return self.answer_to(words.question(plan.steps, plan.weight)) in YES

    def _dry(self, parsed_args: argparse.Namespace, plan: _Planned) -> int:
        if parsed_args.format == "text":
            self.tell(map(words.step_line, plan.steps))
            self.tell([TextLine(words.plan_sum(plan.steps))])
            self.say("Dry run: nothing is written.")
        else:
            extras = qos_plan.undeclared(plan.file.declared, plan.live)
            self.say_data(serialize.plan_data(plan.steps, plan.effects, extras, plan.impacts), parsed_args)
        return 0

    def _take(self, plan: _Planned, api: Cinder, *, text: bool) -> list[StepResult]:
        results: list[StepResult] = []
        with ended_early() as interrupt:
            for one in qos_apply.apply(plan.steps, plan.live, api):
                results.append(one)
                if text:
                    self.tell([words.taken_line(one)])
                if interrupt.is_set():  # between two steps: one may be several requests
                    self.complain("Interrupted: no more steps. Run it again for the remaining steps.")
                    break
        for step in plan.steps[len(results) :]:
            results.append(StepResult(step, How.NOT_TRIED, "interrupted"))
            if text:
                self.tell([words.taken_line(results[-1])])
        return results

    def _left(self, parsed_args: argparse.Namespace, api: Cinder, file: QosFile) -> tuple[Step, ...] | None:
        """The remaining steps, read from Cinder; None if it cannot be read."""
        try:
            return qos_plan.plan(
                file.declared, qos_cinder.read(api), prune=parsed_args.prune, force=parsed_args.prune_in_use
            )
        except PlimsollError as error:
            self.complain(f"Unknown what Cinder has now: {error}")
            return None


class QosExport(CloudCommand):
    """Export QoS specs and volume types as a file.

    The file is for plan and apply. If Cinder may hide extra specs of volume types from this user, the file has none,
    so that plimsoll qos apply leaves them as they are.

    plimsoll qos plan finds nothing to do for that file until Cinder or the file changes.

    Exit status:
        0   written
        1   error
        64  usage

    Examples:
        plimsoll qos export --output qos.yaml
        plimsoll qos export --cloud north
        plimsoll qos export --cloud north --output north.yaml
    """

    prints_files = True

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--output", metavar="FILE", type=Path, help="write to this file, atomically; default: standard output"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        live = qos_cinder.read(self.cinder(parsed_args, self.settings(parsed_args)))
        declaration = live.declared()
        if live.types and not live.has_all_extra_specs:
            self.complain(words.NO_EXTRA_SPECS)
        text = qos_file.text_of(declaration)
        if parsed_args.format == "json":
            text = f"{text_of(qos_file.data_of(declaration), parsed_args.format)}\n"
        if parsed_args.output is None:
            self.app.stdout.write(text)
            return 0
        files.save(parsed_args.output, text, ConfigError)
        self.say(f"{parsed_args.output}: {words.holdings(declaration)}")
        return 0


class QosLint(CloudCommand):
    """Check the QoS specs of a file, or those of Cinder.

    An error is a key or value without the effect that it says, usually silently: a misspelled key, a total beside
    reads, a burst below its limit. A warning is valid but probably not intended.

    Exit status:
        0   no error
        1   errors
        64  usage

    Examples:
        plimsoll qos lint qos.yaml
        plimsoll qos lint
        plimsoll qos lint --cloud north -f json
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("file", metavar="FILE", nargs="?", help="or - for standard input; default: ask Cinder")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        file = _read(parsed_args.file) if parsed_args.file else None
        settings = self.settings(parsed_args)
        declaration = file.declared if file else qos_cinder.read(self.cinder(parsed_args, settings)).declared()
        remarks = [
            *review.review(declaration, settings.brake.lowest),
            *(() if file is None else review.numbers(file)),
        ]
        findings = [(None if file is None else file.line_of(finding.path), finding) for finding in remarks]
        findings.sort(key=lambda pair: pair[0] or 0)
        origin = None if file is None else file.origin
        if parsed_args.format != "text":
            self.say_data([serialize.finding_data(finding, origin, line) for line, finding in findings], parsed_args)
        else:
            for line, finding in findings:
                self.say(_place(origin, line) + _finding(finding))
            self.say(f"{origin or 'Cinder'}: {words.review_sum(declaration, [finding for _, finding in findings])}")
        return 1 if any(finding.severity == "error" for _, finding in findings) else 0


def _place(origin: str | None, line: int | None) -> str:
    return "" if origin is None else f"{origin}:{line}: "


def _finding(finding: QosFinding) -> str:
    return f"{words.finding_words(finding)}{' (warning)' if finding.severity == 'warning' else ''}"
