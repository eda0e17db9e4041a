"""`auto` as a state machine: which round follows which."""

from __future__ import annotations

from dataclasses import dataclass, replace

from keyveil.estimate.sizes import SizeLaw
from keyveil.protocols.auto import check, discover, distribution, groups, measure, sizes, values
from keyveil.protocols.auto.answers import Answers
from keyveil.protocols.auto.choose import choose
from keyveil.protocols.auto.discover import Candidates
from keyveil.protocols.auto.opening import Opening
from keyveil.protocols.auto.outcome import outcome
from keyveil.protocols.auto.settings import Settings
from keyveil.protocols.base import History, Outcome, check_history
from keyveil.rounds import Round


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto(Settings):
    """Sizes, values, then what suits them.

    >>> from fractions import Fraction
    >>> protocol = Auto(epsilon=Fraction(1), n_keys=50, users=10_000, pairs_per_user=3)
    >>> [stage.purpose for stage in protocol.stages()]
    ['sizes', 'values', 'collect', 'check']
    """

    def start(self, campaign: str) -> Round:
        """Sizes; values where there is nothing to learn about sizes; everybody where of neither."""
        if self.holds_several:
            return sizes.ask(self, campaign)
        if self.asks_values:
            return values.ask(self, campaign, 1)
        return self._main(Opening.behind(campaign, ()), SizeLaw.exactly(1))

    def next(self, history: History) -> Round | Outcome:
        """What follows from the rounds so far: read as they were opened, whatever would be opened today."""
        check_history(self, history)
        answers, rounds = Answers(history), [round for round, _ in history]
        before = rounds[-1]
        match before.purpose:
            case "sizes":
                return self._after_sizes(before, sizes.law(self, answers))
            case "values":
                return self._main(Opening.behind(before.campaign, rounds), sizes.law(self, answers))
            case "discover":
                found = discover.read(self, answers.required("discover"), sizes.law(self, answers))
                keys = discover.candidates(self, found)
                return discover.ask_overlap(self, before, keys, discover.part_of(found, keys))
            case "overlap":
                return measure.ask_again(self, before, discover.read_overlap(self, answers))
            case "collect" if check.is_due(self, before):
                law = sizes.law(self, answers)
                measured = measure.read(answers.required("collect"), law)
                return check.ask(self, measured, values.anchor(self, answers, law))
            case "measure" if check.is_due(self, before):
                candidates = discover.read_overlap(self, answers)
                measured = measure.read(answers.required("measure"), candidates.law)
                return check.ask(self, measured, values.anchor(self, answers, sizes.law(self, answers)))
        if distribution.is_told(answers):
            return distribution.outcome(self, answers)
        return outcome(self, answers)

    def _after_sizes(self, before: Round, law: SizeLaw) -> Round:
        """Values, unless the keys will tell themselves where means lie, or means are not wanted."""
        if self.asks_values and values.are_needed(self, law):
            return values.ask(self, before.campaign, 2)
        return self._main(Opening.behind(before.campaign, [before]), law)

    def _main(self, opening: Opening, law: SizeLaw) -> Round:
        """What most users are asked, after the small groups: one round, or the first of two."""
        if self.asks_waves:
            return distribution.ask(self, opening, law)
        choice = choose(self, law, self.n_keys, 1 - opening.low)
        if discover.pays(self, opening, choice, law):
            return discover.ask(self, opening, choice, law)
        return measure.ask_all(self, opening, choice)

    def stages(self) -> tuple[Round, ...]:
        """All rounds of one course, with stand-ins: everybody is in one group, so epsilon is any round's."""
        law = SizeLaw.exactly(self.pairs_per_user)
        stages = [sizes.ask(self, "stage")] if self.holds_several else []
        if self.asks_values:
            stages.append(values.ask(self, "stage", len(stages) + 1))
        stages.append(self._main(Opening.behind("stage", stages), law))
        if stages[-1].purpose == "discover":
            keys = tuple(range(min(self.n_keys, self.tuning.fewest_tops * self.top)))
            stages.append(discover.ask_overlap(self, stages[-1], keys))
            stages.append(measure.ask_again(self, stages[-1], Candidates(keys, law)))
        if self.holds_several and not self.asks_waves:
            # Whoever may be asked to check belongs to no other group.
            last = replace(stages[-1], group=(stages[-1].group[0], groups.check(self.tuning)[0]))
            stages[-1:] = [last, check.ask_about(self, last, (0,), 1.0)]
        return tuple(stages)
