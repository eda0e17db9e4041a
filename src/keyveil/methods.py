"""Methods: every way of asking that a campaign can name, in one list.

A method is a mechanism (a kernel, `keyveil.mechanisms`) or several in rounds that follow from each
other, and what is made of their reports. This list is all there is: what a campaign says is looked up
here, by devices too, which need nothing but the standard library for it; `keyveil.protocols` makes
rounds and estimates of what it says. An id's meaning never changes; a new meaning is a new id.

`pckv-ue:naive` names a method and an allocation other than its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from keyveil.errors import MechanismError
from keyveil.mechanisms.registry import find, find_outside

__all__ = ["METHODS", "Method", "find_method", "has_several_rounds", "mechanism_of"]

# How the tally of a single round is read: debiased signs, and what needs reading in its own way.
SIGNS, KEYS_ONLY, APART, EM, MLE, VALUES = "signs", "keys-only", "apart", "em", "mle", "values"

# What a campaign may say is to be known best; "both" are frequencies and means.
WANTS = ("frequency", "mean", "distribution", "both")

# The options of mechanisms that people may set, whichever they belong to.
MECHANISM_OPTIONS = ("bins", "half_width", "cohorts", "buckets", "rho")


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """What a campaign asks for."""

    what: str
    """In one line."""
    mechanism: str | None = None
    """The mechanism of its only round; None where there are several, which follow from each other."""
    reading: str = SIGNS
    """What is made of the reports to that round."""
    takes_allocations: bool = False
    """Whether its name may ask for one of the mechanism's."""
    gives_distribution: bool = False
    """Whether it tells how a key's values are spread; one that heeds wishes does where that is wanted."""
    needs_users: bool = False
    """Whether it makes a difference how many users are expected."""
    heeds_want: bool = False
    """Whether it chooses how to ask by what is wanted most."""
    tells_signs: bool = False
    """Whether values are rounded to signs, so that the public dither tells how they are spread at no cost."""
    least_part: Fraction = Fraction(1)
    """The smallest part of the devices that a round of it asks; all of them, where no groups are drawn."""
    of_everybody: tuple[str, ...] | None = ()
    """The purposes of rounds that speak of all users where a segment is estimated: small groups answered.
    None where no segment can be, because each round is built on what all users said in the last."""
    from_literature: bool = False
    """Whether it is a paper's, kept for comparison."""

    @property
    def allocations(self) -> tuple[str, ...]:
        """Those that its name may ask for, the default first."""
        if not self.takes_allocations or self.mechanism is None:
            return ()
        return tuple(allocation.value for allocation in find(self.mechanism)[0].allocations)

    @property
    def has_several_rounds(self) -> bool:
        """Whether later rounds follow from earlier ones, so that devices learn each from the collector."""
        return self.mechanism is None


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "privkv": Method(
            what="an index, held or not, a sign",
            mechanism="privkv",
            takes_allocations=True,
            from_literature=True,
        ),
        "privkvm": Method(
            what="c rounds; non-holders speak for the last mean", of_everybody=None, from_literature=True
        ),
        "privkvm-plus": Method(
            what="rounds that spend half of what is left until means settle",
            of_everybody=None,
            from_literature=True,
        ),
        "privkvm-virtual": Method(
            what="real rounds, then predicted ones", of_everybody=None, from_literature=True
        ),
        "privkv-em": Method(
            what="PrivKV's reports, four-state EM as published",
            mechanism="privkv",
            reading=EM,
            from_literature=True,
        ),
        "privkv-mle": Method(
            what="PrivKV's reports, exact three-state likelihood",
            mechanism="privkv",
            reading=MLE,
            from_literature=True,
        ),
        "privkvm-star": Method(
            what="values as boundaries; all keys, then the heavy ones",
            gives_distribution=True,
            of_everybody=None,
            from_literature=True,
        ),
        "kvue": Method(
            what="an index, absent or + or - at once",
            mechanism="kvue",
            takes_allocations=True,
            tells_signs=True,
        ),
        "pckv-ue": Method(
            what="one noisy trit per key", mechanism="pckv-ue", takes_allocations=True, tells_signs=True
        ),
        "pckv-grr": Method(
            what="one signed key, amplified", mechanism="pckv-grr", takes_allocations=True, tells_signs=True
        ),
        "ks-ue": Method(
            what="one noisy trit per key, rarer wrong signs",
            mechanism="ks-ue",
            takes_allocations=True,
            tells_signs=True,
        ),
        "ks-grr": Method(
            what="candidates by hashing, then signed keys among them",
            tells_signs=True,
            least_part=Fraction(1, 10),
            of_everybody=("candidates", "sizes"),
        ),
        "ue-sw": Method(
            what="one noisy value per key; whole distributions",
            mechanism="ue-sw",
            reading=VALUES,
            takes_allocations=True,
            gives_distribution=True,
        ),
        "bucket": Method(
            what="whole records hashed to a few buckets, one sent", mechanism="bucket", tells_signs=True
        ),
        "levels": Method(what="an index, absent or a level of the value at once", mechanism="levels"),
        "auto": Method(
            what="the planner's choice for what the sizes turn out to be",
            gives_distribution=True,
            needs_users=True,
            heeds_want=True,
            tells_signs=True,
            least_part=Fraction(1, 100),
            of_everybody=("sizes", "values", "overlap", "check"),
        ),
        "krr-harmony": Method(
            what="baseline: key by randomized response, sign apart",
            mechanism="krr-harmony",
            reading=APART,
            from_literature=True,
        ),
        "rappor-harmony": Method(
            what="baseline: symmetric bits, sign apart",
            mechanism="rappor-harmony",
            reading=APART,
            from_literature=True,
        ),
        "oue-harmony": Method(
            what="baseline: optimised bits, sign apart",
            mechanism="oue-harmony",
            reading=APART,
            from_literature=True,
        ),
        "grr": Method(what="keys only: randomized response", mechanism="grr", reading=KEYS_ONLY),
        "oue": Method(what="keys only: optimised bits", mechanism="oue", reading=KEYS_ONLY),
        "olh": Method(what="keys only: a hash and randomized response", mechanism="olh", reading=KEYS_ONLY),
        "subset": Method(
            what="keys only: some keys, the own one among them", mechanism="subset", reading=KEYS_ONLY
        ),
    }
)


def find_method(name: str) -> tuple[Method, str]:
    """The method behind a name, and the allocation that the name asks for.

    >>> find_method("pckv-ue:naive")[1]
    'naive'
    """
    method_id, _, allocation = name.partition(":")
    method = METHODS.get(method_id) or _from_outside(method_id)
    if method is None:
        import difflib

        near = difflib.get_close_matches(method_id, METHODS, n=1, cutoff=0.5)
        hint = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(METHODS)}"
        raise MechanismError(f'unknown mechanism "{method_id}"; {hint}')
    if allocation and allocation not in method.allocations:
        known = ", ".join(method.allocations) or "only its own"
        raise MechanismError(f'"{method_id}" has no allocation "{allocation}"; expected {known}')
    return method, allocation


def _from_outside(name: str) -> Method | None:
    """Another package's mechanism, asked for in one round."""
    found = find_outside(name)
    if found is None:
        return None
    from keyveil.mechanisms import EncodedOracle

    return Method(
        what=(found.__doc__ or "").partition("\n")[0],
        mechanism=name,
        reading=KEYS_ONLY if issubclass(found, EncodedOracle) else SIGNS,
        takes_allocations=True,
    )


def has_several_rounds(name: str) -> bool:
    """Whether a method of this name has rounds that follow from each other.

    >>> has_several_rounds("privkvm"), has_several_rounds("kvue")
    (True, False)
    """
    return name in METHODS and METHODS[name].has_several_rounds


def mechanism_of(name: str) -> str:
    """The mechanism whose reports a method of one round reads; any other name stands for itself.

    >>> mechanism_of("privkv-em"), mechanism_of("pckv-ue:naive")
    ('privkv', 'pckv-ue:naive')
    """
    return (METHODS[name].mechanism if name in METHODS else None) or name
